// Writes strings.json: consent strings of IAB Tech Lab's own encoders, with what each was told.
//
//     npm ci && node generate.mjs
//
// Tests read the output and need no npm. The generator is seeded: the same packages, the same file.

import { writeFileSync } from "node:fs";
import {
  PurposeRestriction,
  RestrictionType,
  Segment,
  SegmentEncoder,
  TCModel,
} from "@iabtechlabtcf/core";
import { GppModel } from "@iabgpp/cmpapi";

let state = 20261118;
function random() { // mulberry32
  state = (state + 0x6d2b79f5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
}
const below = (n) => Math.floor(random() * n);
const some = (most, share) =>
  Array.from({ length: most }, (_, i) => i + 1).filter(() => random() < share);
const pick = (list) => list[below(list.length)];

// -- TCF ----------------------------------------------------------------------------------------

const VENDOR = 755;
const vendorKinds = [
  () => [],
  () => [VENDOR],
  () => [1, 2, 3, 4, 5, 6, 7, 700, VENDOR],
  () => some(40, 0.5),
  () => some(900, 0.6), // a bit field
  () => some(740, 0.01).concat(VENDOR), // ranges
  () => Array.from({ length: 100 }, (_, i) => 700 + i), // one range
  () => [3, 4, 5, 1100, 65535], // ranges up to the highest id
];

function tcf(at) {
  const model = new TCModel();
  const day = new Date(Date.UTC(2024, 0, 1 + below(1000)));
  model.created = day;
  model.lastUpdated = day;
  model.cmpId = 2 + below(4000);
  model.cmpVersion = below(4096);
  model.consentScreen = below(64);
  model.consentLanguage = pick(["EN", "DE", "FR", "PL"]);
  model.publisherCountryCode = pick(["DE", "FR", "AA", "ZZ"]);
  model.policyVersion = pick([2, 4, 5, 5, 5]);
  model.isServiceSpecific = at % 20 !== 7;
  model.useNonStandardTexts = random() < 0.3;
  model.purposeOneTreatment = random() < 0.3;
  const share = pick([0.3, 0.9, 1]);
  model.specialFeatureOptins.set(some(2, 0.5));
  model.purposeConsents.set(some(11, share));
  model.purposeLegitimateInterests.set(some(11, share));
  model.vendorConsents.set(vendorKinds[at % vendorKinds.length]());
  model.vendorLegitimateInterests.set(pick(vendorKinds)());
  const restrictions = [];
  model.publisherRestrictions.gvl = { vendorIds: new Set(Array.from({ length: 999 }, (_, i) => i + 1)) };
  if (at % 3 === 0) {
    for (const purpose of new Set([2, 7, 1 + below(11)])) {
      const kind = below(3);
      const vendors = random() < 0.5 ? [VENDOR] : [700, 701, 702, VENDOR, 756, 900];
      const restriction = new PurposeRestriction(purpose, RestrictionType.NOT_ALLOWED);
      restriction.restrictionType = kind;
      for (const vendor of vendors) model.publisherRestrictions.add(vendor, restriction);
      restrictions.push({ purpose, kind, vendors });
    }
  }
  const parts = [SegmentEncoder.encode(model, Segment.CORE)];
  let disclosed = null;
  if (at % 4 !== 1) {
    disclosed = pick([[VENDOR], some(60, 0.3), some(740, 0.5).concat(VENDOR), [1, 2, 3]]);
    model.vendorsDisclosed.set(disclosed);
    parts.push(SegmentEncoder.encode(model, Segment.VENDORS_DISCLOSED));
  }
  let publisher = null;
  if (at % 2 === 0) {
    model.publisherConsents.set(some(11, 0.5));
    model.publisherLegitimateInterests.set(some(11, 0.5));
    parts.push(SegmentEncoder.encode(model, Segment.PUBLISHER_TC));
    publisher = [members(model.publisherConsents), members(model.publisherLegitimateInterests)];
  }
  return {
    text: parts.join("."),
    created: day.getTime() / 100,
    cmp_id: model.cmpId,
    cmp_version: model.cmpVersion,
    consent_screen: model.consentScreen,
    consent_language: model.consentLanguage,
    publisher_country: model.publisherCountryCode,
    policy_version: model.policyVersion,
    service_specific: model.isServiceSpecific,
    non_standard_texts: model.useNonStandardTexts,
    purpose_one_treatment: model.purposeOneTreatment,
    special_features: members(model.specialFeatureOptins),
    purpose_consents: members(model.purposeConsents),
    purpose_legitimate_interests: members(model.purposeLegitimateInterests),
    vendor_consents: members(model.vendorConsents),
    vendor_legitimate_interests: members(model.vendorLegitimateInterests),
    restrictions,
    disclosed_vendors: disclosed && members(model.vendorsDisclosed),
    publisher_purposes: publisher,
  };
}

/** Ids as a list, or where that is shorter, as the hexadecimal number with these bits set. */
function members(vector) {
  const ids = [];
  let field = 0n;
  vector.forEach((isSet, id) => {
    if (!isSet) return;
    ids.push(id);
    field |= 1n << BigInt(id);
  });
  const text = field.toString(16);
  return text.length < JSON.stringify(ids).length ? text : ids;
}

// -- GPP ----------------------------------------------------------------------------------------

const states = ["ca", "va", "co", "ut", "ct", "fl", "mt", "or", "tx", "de", "ia", "ne", "nh", "nj",
  "tn", "mn", "md", "in", "ky", "ri"].map((state) => `us${state}`);
const fields = {}; // names by section id, in the order of answers
const OPT_OUT = /^(Sale|Sharing|TargetedAdvertising)OptOut$/;

/** Fields of a section as the encoder has them, with random answers. */
function usSection(model, name, calm) {
  model.setFieldValue(name, pickField(name), 0);
  const told = [];
  const names = [];
  for (const [field, value] of Object.entries(sectionFields(model, name))) {
    if (/SegmentType|SegmentIncluded|^Gpc$|^Version$|^MspaVersion$/.test(field)) continue;
    const answer = () => {
      if (field === "MspaCoveredTransaction") return 1 + below(2);
      if (!calm) return below(3);
      if (OPT_OUT.test(field)) return pick([0, 2]);
      if (/Notice$/.test(field)) return below(2);
      if (/^KnownChild|ServiceProviderMode$|^MspaMode$/.test(field)) return 0;
      return below(3);
    };
    const given = Array.isArray(value) ? value.map(answer) : answer();
    model.setFieldValue(name, field, given);
    told.push(Array.isArray(given) ? given.join("") : String(given));
    names.push(field);
  }
  let gpc = null;
  try {
    const included = random() < 0.6;
    model.setFieldValue(name, "GpcSegmentIncluded", included);
    if (included) {
      gpc = calm ? false : random() < 0.5;
      model.setFieldValue(name, "Gpc", gpc);
    }
  } catch {
    gpc = null; // a section without it
  }
  fields[idOf(name)] = names;
  return { told, gpc };
}

const pickField = (name) => (name === "usca" ? "SaleOptOut" : "TargetedAdvertisingOptOut");

function sectionFields(model, name) {
  const object = model.getSection(name);
  return Object.assign({}, ...(Array.isArray(object) ? object : [object]));
}

function gpp(at) {
  const model = new GppModel();
  const sections = {};
  const calm = at % 2 === 0;
  const names = at < 4 * states.length ? [states[at % states.length]] : [];
  if (names.length === 0) {
    if (random() < 0.5) names.push("usnat");
    for (const name of states) if (random() < 0.15) names.push(name);
  }
  for (const name of names) {
    const { told, gpc } = usSection(model, name, calm);
    let version = model.getFieldValue(name, name === "usnat" ? "Version" : versionField(name));
    if (name === "usnat" && random() < 0.5) {
      version = 1;
      model.setFieldValue(name, "Version", 1);
      const [sensitive, child] = ["SensitiveDataProcessing", "KnownChildSensitiveDataConsents"]
        .map((field) => fields[7].indexOf(field));
      told[sensitive] = told[sensitive].slice(0, 12);
      told[child] = told[child].slice(0, 2);
    }
    sections[idOf(name)] = { version, told, gpc };
  }
  if (at % 3 === 0) {
    const text = `1${pick("YN-")}${calm ? pick("N-") : pick("YN-")}${pick("YN-")}`;
    model.setFieldValue("uspv1", "Notice", text[1]);
    model.setFieldValue("uspv1", "OptOutSale", text[2]);
    model.setFieldValue("uspv1", "LspaCovered", text[3]);
    sections[6] = { text };
  }
  if (at % 5 === 0) {
    model.setFieldValue("tcfeuv2", "PurposeConsents",
      Array.from({ length: 24 }, (_, i) => i < 10 && random() < 0.8));
    model.setFieldValue("tcfeuv2", "VendorConsents", some(300, 0.1).concat(VENDOR));
    model.setFieldValue("tcfeuv2", "LastUpdated", new Date(Date.UTC(2026, 1, 1 + below(28))));
    sections[2] = {
      purpose_consents: model.getFieldValue("tcfeuv2", "PurposeConsents")
        .flatMap((isSet, i) => (isSet ? [i + 1] : [])),
      vendor_consents: model.getFieldValue("tcfeuv2", "VendorConsents"),
      last_updated: model.getFieldValue("tcfeuv2", "LastUpdated").getTime() / 100,
    };
  }
  if (at % 11 === 0) {
    model.setFieldValue("tcfcav1", "Created", new Date(Date.UTC(2026, 1, 1)));
    model.setFieldValue("tcfcav1", "LastUpdated", new Date(Date.UTC(2026, 1, 1)));
    sections[5] = {};
  }
  return { text: model.encode(), sections };
}

const idOf = (name) => (name === "usnat" ? 7 : 8 + states.indexOf(name));
const versionField = (name) => (idOf(name) >= 24 ? "MspaVersion" : "Version");

const cases = {
  vendor: VENDOR,
  tcf: Array.from({ length: 160 }, (_, at) => tcf(at)),
  gpp: Array.from({ length: 220 }, (_, at) => gpp(at)),
  fields,
};
const lines = Object.entries(cases).map(([name, value]) =>
  Array.isArray(value)
    ? `"${name}": [\n${value.map((one) => JSON.stringify(one)).join(",\n")}\n]`
    : `"${name}": ${JSON.stringify(value)}`);
writeFileSync(new URL("strings.json", import.meta.url), `{\n${lines.join(",\n")}\n}\n`);
