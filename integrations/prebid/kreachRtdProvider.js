/**
 * Real-time data module of kreach: puts the visitor's group into the first-party data of bid requests.
 *
 * It asks the publisher's own gateway, which knows the visitor by a signed cookie that no script can
 * read, and copies the answer into `ortb2.user.data`. It stores nothing, reads no cookie, knows no
 * user id and adds no EIDs. Without an answer in time, or without permission, requests go out as
 * they are.
 */
import { MODULE_TYPE_RTD } from '../src/activities/modules.js';
import { qualifiedAjaxBuilder } from '../src/ajax.js';
import { submodule } from '../src/hook.js';
import { logError, logInfo, mergeDeep } from '../src/utils.js';

const NAME = 'kreach';
const DEFAULT_TIMEOUT_MS = 300;
const SELECT_BASIC_ADS = 2; // purpose of the TCF; frequency capping belongs to it

/** Whether law and signals let the group of this visitor be used in advertising. */
export function isPermitted(consent = {}) {
  if (consent?.coppa) return false;
  if (consent?.usp && consent.usp[2] === 'Y') return false; // opted out of sale
  const gpp = consent?.gpp?.gppData?.parsedSections ?? {};
  for (const section of Object.values(gpp).flat()) {
    if (section?.SaleOptOut === 1 || section?.SharingOptOut === 1) return false;
  }
  if (!consent?.gdpr?.gdprApplies) return true;
  const purpose = consent.gdpr.vendorData?.purpose;
  return Boolean(
    purpose?.consents?.[SELECT_BASIC_ADS] || purpose?.legitimateInterests?.[SELECT_BASIC_ADS]
  );
}

/** The entries of an OpenRTB user object that carry a group; anything else is left out. */
export function groupData(text) {
  const user = JSON.parse(text);
  return (user?.data ?? [])
    .filter(({ name, segment }) => name && typeof segment?.[0]?.id === 'string')
    .map(({ name, segment, ext }) => ({ name, segment: [{ id: segment[0].id }], ext }));
}

function init(config) {
  const url = config?.params?.url;
  const valid = typeof url === 'string' && /^https?:\/\//.test(url);
  if (!valid) logError(`${NAME}: params.url must be the address of the publisher's gateway`);
  return valid;
}

function getBidRequestData(request, done, config, consent) {
  if (!isPermitted(consent)) {
    logInfo(`${NAME}: no permission, the gateway is not asked`);
    done();
    return;
  }
  const { url, timeout = DEFAULT_TIMEOUT_MS } = config.params;
  qualifiedAjaxBuilder(MODULE_TYPE_RTD, NAME, timeout)(
    `${url.replace(/\/+$/, '')}/v1/identify`,
    {
      success(text) {
        try {
          const data = text ? groupData(text) : []; // no text: nobody is signed in
          if (data.length) mergeDeep(request.ortb2Fragments.global, { user: { data } });
        } catch (error) {
          logError(`${NAME}: the gateway's answer cannot be read`);
        }
        done();
      },
      error() {
        logInfo(`${NAME}: no answer of the gateway`);
        done();
      }
    },
    undefined,
    { method: 'POST', withCredentials: true }
  );
}

export const kreachSubmodule = { name: NAME, init, getBidRequestData };

submodule('realTimeData', kreachSubmodule);
