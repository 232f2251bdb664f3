"""Output is complete at every instant: kills, locks, drafts of killed runs, and a failing disk."""

import errno
import fcntl
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kreach.adsystem.jobs import output
from kreach.adsystem.jobs.hourly import run_hourly
from kreach.adsystem.jobs.nightly import run_nightly
from kreach.adsystem.jobs.output import SOURCE_FACTS, OutputFolder, swap_folders
from kreach.errors import KreachError
from tests.adsystem.jobs.kill_points import DEATHS
from tests.adsystem.jobs.sample_stores import HOUR, NOW, START, SampleStore, Sold, days, hours, tree

ROOT = Path(__file__).resolve().parents[3]
FACTS = dict.fromkeys(SOURCE_FACTS, "")


def deaths(kind: str, folder: Path) -> list[list[Any]]:
    """What `kill_points` reports of each kill."""
    command = [sys.executable, "-m", "tests.adsystem.jobs.kill_points", kind, str(folder)]
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # it forks
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=alone)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_kill_at_any_step_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    reports = deaths("output", tmp_path)
    for able, _, left, after, drafts in reports:
        assert after in (["old"], ["new"])
        assert left == after or (not able and left == [])  # the next run closes the gap
        assert drafts == 0
    for able in (True, False):
        ends = [after for here, _, _, after, _ in reports if here == able]
        assert len(ends) > 15
        assert ends == sorted(ends, reverse=True)  # once new, always new
    assert sum(left == [] for *_, left, _, _ in reports) == 1


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> SampleStore:
    """A day with output of before some rows came late: the next run makes it anew."""
    sample = SampleStore(tmp_path_factory.mktemp("sample"), bidders=("b1", "b2"))
    sample.add("spring")
    sample.write_random(80, seed=21)
    sample.move()
    run_nightly(sample.options(), days(START), NOW)
    shutil.copytree(sample.folder / "out", sample.folder / "old")
    sample.write([Sold("b2", "spring", "v1", 4, START + HOUR, 77)])
    sample.move()
    return sample


@pytest.fixture
def sample(template: SampleStore, tmp_path: Path) -> SampleStore:
    return template.copy(tmp_path)


def by_folder(files: dict[str, str]) -> dict[str, dict[str, str]]:
    folders: dict[str, dict[str, str]] = {}
    for name, digest in files.items():
        folders.setdefault(name.rpartition("/")[0], {})[name] = digest
    return {
        folder: inside for folder, inside in folders.items() if not folder.startswith(".drafts")
    }


def test_a_nightly_run_that_is_killed_leaves_each_folder_old_or_new(sample: SampleStore) -> None:
    old = by_folder(tree(sample.folder / "old"))
    reports = deaths("nightly", sample.folder)
    *killed, (whole, _, left, new_tree) = reports
    new = by_folder(new_tree)
    assert not whole
    assert by_folder(left) == new
    assert new != old
    assert new.keys() == old.keys() == {"log/day=2025-11-01", "daily/day=2025-11-01"}
    assert len(killed) == DEATHS
    for dead, _, left, after in killed:
        assert dead
        assert after == new_tree  # the next run ends where one without a kill ends
        here = by_folder(left)
        assert here.keys() == old.keys()
        for folder, files in here.items():
            assert files in (old[folder], new[folder])
    assert any(name.startswith(".drafts") for _, _, left, _ in killed for name in left)


def test_a_command_that_is_killed_at_any_time(sample: SampleStore) -> None:
    out = sample.folder / "out"
    old = by_folder(tree(out))
    flags = ("--store", str(sample.settings.store), "--groups", str(sample.folder / "v1"))
    command = [sys.executable, "-m", "kreach", "jobs", "nightly", *flags]
    command += ["--out", str(out), "--day", "2025-11-01"]
    run_nightly(sample.options(), days(START), NOW)
    new = by_folder(tree(out))
    shutil.rmtree(out)
    shutil.copytree(sample.folder / "old", out)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        while running.poll() is None and not (out / ".drafts" / "nightly").exists():
            time.sleep(0.01)
        time.sleep(random.Random(8).random())
        running.kill()
    for folder, files in by_folder(tree(out)).items():
        assert files in (old[folder], new[folder])


def test_a_second_run_is_refused_and_the_first_goes_on(sample: SampleStore) -> None:
    with OutputFolder(sample.folder / "out", "nightly"):
        with pytest.raises(KreachError, match=r"out must be used by one nightly run at a time"):
            run_nightly(sample.options(), days(START), NOW)
        run_hourly(sample.options(), hours(START), NOW)  # another job is no second run
    run_nightly(sample.options(), days(START), NOW)


def test_days_are_not_replaced_while_an_hour_reads_them(sample: SampleStore) -> None:
    out = sample.folder / "out"
    before = tree(out / "log")
    ended: list[object] = []
    with OutputFolder(out, "hourly") as reader, reader.log_locked(alone=False):
        work = threading.Thread(
            target=lambda: ended.append(run_nightly(sample.options(), days(START), NOW))
        )
        work.start()
        deadline = time.monotonic() + 60
        while not list(out.rglob("log-2025-11-01/_manifest.json")) and not waits(out):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.2)
        assert tree(out / "log") == before
        assert not ended
    work.join(60)
    assert ended
    assert tree(out / "log") != before


def waits(out: Path) -> bool:
    """Whether the day's reach is drafted: what is left is to wait for the lock."""
    return bool(list(out.rglob("daily-2025-11-01/reach.parquet")))


def test_drafts_of_the_dead_are_swept(tmp_path: Path) -> None:
    litter = tmp_path / ".drafts" / "job" / "log-x"
    litter.mkdir(parents=True)
    (litter / "part-0000.parquet").write_text("half")
    other = tmp_path / ".drafts" / "other" / "log-y"
    other.mkdir(parents=True)
    with OutputFolder(tmp_path, "job"):
        assert not litter.exists()
        assert other.exists()  # somebody else's, who may be alive


def test_a_disk_that_fails_half_way_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(text: str) -> None:
        with OutputFolder(tmp_path, "job") as folder, folder.draft("draft") as draft:
            (draft / "a").write_text(text)
            folder.put(draft, "kind/day=1", FACTS)

    put("old")
    monkeypatch.setattr(output, "swap_folders", lambda *_: False)
    original = Path.rename
    left = [0]

    def rename(self: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(errno.EIO, "broken")
        return original(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    for step in (1, 2):
        left[0] = step
        with pytest.raises(OSError, match="broken"):
            put("new")
        assert (tmp_path / "kind" / "day=1" / "a").read_text() == "old"
    put("new")
    assert (tmp_path / "kind" / "day=1" / "a").read_text() == "new"


def test_folders_are_swapped_in_one_step_or_not_at_all(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    if swap_folders(one, other):
        assert [path.name for path in one.iterdir()] == ["other"]
        assert [path.name for path in other.iterdir()] == ["one"]
        with pytest.raises(FileNotFoundError):
            swap_folders(one, tmp_path / "nothing")
    else:  # no such call here: nothing may have changed
        assert [path.name for path in one.iterdir()] == ["one"]


def test_out_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(KreachError, match="out must be a folder that can be written"):
            OutputFolder(out, "job")


def test_the_lock_is_let_go_whatever_happens(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), OutputFolder(tmp_path, "job"):
            raise ZeroDivisionError
    descriptor = os.open(tmp_path / ".job.lock", os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
