"""A bidder in this process against a folder of recorded bid requests, judged by the checker.

    python -m simulations.openrtb_requests FOLDER

Every JSON file is searched for bid requests (objects with `id` and a list `imp`), at any depth: as
in Prebid Server's exemplary files. Each distinct one is sent as it is, and once more with a group
of ours and enough time to answer, because recorded requests know neither.
"""

import argparse
import asyncio
import copy
import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from kreach.adsystem.bidserver.app import bidder_app_with_fast_path
from kreach.adsystem.bidserver.service import BidderState
from kreach.adsystem.campaigns.store import CampaignStore
from kreach.adsystem.settings import AdSystemSettings, BidderSettings
from kreach.boundary.catalogue import Catalogue
from kreach.boundary.files import write_catalogue
from kreach.service.logs import Log
from kreach.service.metrics import Metrics
from simulations.openrtb_campaigns import campaigns_of_every_kind
from simulations.openrtb_checker import violations

__all__ = ["judge", "main", "requests_in"]

RATES = {"EUR": 1.085, "GBP": 1.27, "JPY": 0.0067, "MXN": 0.055, "BRL": 0.18}
_GROUPS = 1_000
_EXAMPLE = re.compile(r"^```(?:json)?\s*$(.*?)^```", re.MULTILINE | re.DOTALL)


def requests_in(folder: Path) -> Iterator[dict[str, Any]]:
    """Distinct bid requests in the JSON and Markdown files of a folder."""
    seen: set[str] = set()
    for path in sorted(folder.rglob("*")):
        if path.suffix not in (".json", ".md") or not path.is_file():
            continue
        text = path.read_text("utf-8", "replace")
        for part in [text] if path.suffix == ".json" else _EXAMPLE.findall(text):
            try:
                document = json.loads(part)
            except ValueError:
                continue
            for request in _requests(document):
                key = json.dumps(request, sort_keys=True)
                if key not in seen:
                    seen.add(key)
                    yield request


def _requests(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict):
        if "id" in document and isinstance(document.get("imp"), list):
            yield document
        for value in document.values():
            yield from _requests(value)
    elif isinstance(document, list):
        for value in document:
            yield from _requests(value)


def _with_group(request: dict[str, Any], number: int) -> dict[str, Any]:
    """The same request of a user in one of our groups."""
    changed = copy.deepcopy(request)
    user = changed.get("user")
    user = user if isinstance(user, dict) else {}
    data = user.get("data")
    entry = {
        "name": "kreach",
        "segment": [{"id": f"g{number % _GROUPS}"}],
        "ext": {"catalogue": "v1"},
    }
    changed["user"] = user | {"data": [*(data if isinstance(data, list) else []), entry]}
    changed |= {"tmax": 10_000, "test": 0}
    return changed


def _deals(requests: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    found = {
        deal["id"]
        for request in requests
        for imp in request["imp"]
        if isinstance(imp, dict) and isinstance(imp.get("pmp"), dict)
        for deal in imp["pmp"].get("deals") or ()
        if isinstance(deal, dict) and isinstance(deal.get("id"), str) and deal["id"]
    }
    return tuple(sorted(found))[:100]


async def judge(requests: list[dict[str, Any]], folder: Path) -> dict[str, Any]:
    """Counts of answers by status and of violations, with an example of each."""
    now = datetime.now(UTC)
    ids = tuple(f"g{at}" for at in range(_GROUPS))
    write_catalogue(Catalogue("v1", now, 20, ids, np.full(_GROUPS, 20)), folder / "v1")
    store = CampaignStore(folder / "store")
    for campaign in campaigns_of_every_kind(now, _deals(requests)):
        store.add(campaign)
    store.close()
    shared = AdSystemSettings(
        store=folder / "store", catalogues=(folder / "v1",), rates=RATES, rates_date=now.date()
    )
    metrics = Metrics("bidder")
    settings = BidderSettings(first_bid_share=1.0)
    state = BidderState(shared, settings, Log("bidder", write=lambda _: None))
    _, route = bidder_app_with_fast_path(state, metrics)
    await state.start()
    await asyncio.sleep(0.5)
    statuses: Counter[str] = Counter()
    media: Counter[int] = Counter()
    wrong: dict[str, Any] = {}
    for number, request in enumerate(requests):
        for name, sent in (("as sent", request), ("with group", _with_group(request, number))):
            answer = route.respond(json.dumps(sent).encode())
            statuses[f"{name} {answer.status}"] += 1
            if answer.status == 200:
                response = json.loads(answer.body)
                bids = response.get("seatbid", [{}])[0].get("bid", [])
                media.update(bid["mtype"] for bid in bids)
                for each in violations(sent, response, {"USD": 1.0} | RATES):
                    wrong.setdefault(each, sent)
        if number % 100 == 0:
            await asyncio.sleep(0)  # the bidder's own tasks: grants, plans
    await state.stop()
    return {
        "requests": len(requests),
        "answers": dict(sorted(statuses.items())),
        "server_errors": sum(n for name, n in statuses.items() if name.rpartition(" ")[2] >= "500"),
        "bids_by_mtype": dict(sorted(media.items())),
        "no_bids": dict(sorted(metrics.values("no_bids").items())),
        "violations": sorted(wrong),
        "examples": wrong,
    }


def main(arguments: list[str] | None = None) -> None:
    """Judge the answers to a folder of requests, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--examples", action="store_true", help="print offending requests")
    options = parser.parse_args(arguments)
    requests = list(requests_in(options.folder))
    with tempfile.TemporaryDirectory() as folder:
        result = asyncio.run(judge(requests, Path(folder)))
    examples = result.pop("examples")
    print(json.dumps(result, indent=1))
    if options.examples:
        for violation, request in examples.items():
            print(violation, json.dumps(request)[:3_000])


if __name__ == "__main__":
    main()
