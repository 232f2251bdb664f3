"""Wheel and sdist: their contents, and that the wheel works in an empty environment.

The core has an environment of its own, so that a command or an import that needs an extra shows.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

import kreach
from kreach.extras import EXTRAS

pytestmark = pytest.mark.xdist_group("packaging")
ROOT = Path(__file__).resolve().parents[2]
UV = next(
    (path for path in (ROOT / ".uv/bin/uv", shutil.which("uv")) if path and Path(path).exists()),
    "uv",
)
MAX_PACKAGES = 25
MAX_MEGABYTES = 300  # of installed files; the bytecode that pip compiles takes about 75 more


def run_for_result(*command: str | Path, cwd: Path = ROOT) -> "subprocess.CompletedProcess[str]":
    """Run a command without this environment's Python settings."""
    environment = {
        k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))
    }
    return subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """Standard output of a command that must succeed."""
    result = run_for_result(*command, cwd=cwd)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with wheel and sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(UV, "build", "--quiet", "--out-dir", folder)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (path,) = dist.glob("*.whl")
    return path


def install(wheel: Path, folder: Path, extra: str = "") -> Path:
    """A new environment with the wheel and its dependencies, at the locked versions."""
    constraints = folder.with_suffix(".txt")
    run(UV, "venv", "--quiet", "--python", sys.executable, folder)
    run(
        *(UV, "export", "--quiet", "--frozen", "--no-dev", "--all-extras", "--no-emit-project"),
        *("--no-hashes", "--output-file", constraints),
    )
    python = folder / "bin" / "python"
    target = f"{wheel}[{extra}]" if extra else str(wheel)
    run(UV, "pip", "install", "--quiet", "--python", python, "--constraint", constraints, target)
    return folder


@pytest.fixture(scope="module")
def core(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pip install kreach`."""
    return install(wheel, tmp_path_factory.mktemp("core") / "venv")


@pytest.fixture(scope="module")
def serving(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`pip install 'kreach[serve]'`."""
    return install(wheel, tmp_path_factory.mktemp("serve") / "venv", "serve")


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_types_are_in_the_wheel(wheel: Path) -> None:
    assert "kreach/py.typed" in names_in(wheel)


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = names_in(wheel)
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"kreach", f"kreach-{kreach.__version__}.dist-info"}
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    assert sources <= names


def test_extras_and_version(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"kreach-{kreach.__version__}.dist-info/METADATA").decode()
    metadata = HeaderParser().parsestr(text)
    assert metadata["Version"] == kreach.__version__
    provided = set(metadata.get_all("Provides-Extra") or ())
    assert provided >= {"all", *EXTRAS}
    assert metadata["License-Expression"] == "Apache-2.0"
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(declared["optional-dependencies"]) == provided


def test_the_extra_all_holds_every_other() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = declared["optional-dependencies"]
    (everything,) = extras.pop("all")
    assert everything == f"kreach[{','.join(sorted(extras))}]"


def test_the_sdist_holds_what_is_needed_to_build_and_test(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/kreach/py.typed"} <= names
    assert "simulations/__init__.py" in names
    assert not [name for name in names if name.startswith((".venv", ".uv", "site/", "out/"))]


def test_the_core_is_small(core: Path) -> None:
    (packages,) = core.glob("lib/python3*/site-packages")
    installed = sorted(path.name for path in packages.glob("*.dist-info"))
    assert len(installed) <= MAX_PACKAGES, installed
    size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())
    assert size / 1e6 <= MAX_MEGABYTES


def test_the_command_of_the_core_works(core: Path, tmp_path: Path) -> None:
    command = core / "bin" / "kreach"
    assert run(command, "--version", cwd=tmp_path) == f"kreach {kreach.__version__}\n"
    text = run(command, "--help", cwd=tmp_path)
    for name in ("demo", "measure", "groups", "plan", "serve", "evaluate", "reproduce"):
        assert name in text


def test_the_core_measures_plans_and_builds_groups(core: Path, tmp_path: Path) -> None:
    command = core / "bin" / "kreach"
    visits = [f"u{person % 60},2026-01-{1 + person % 28:02}T10:00:00Z" for person in range(300)]
    (tmp_path / "visits.csv").write_text("\n".join(["user_id,ts", *visits]) + "\n")
    build = ("groups", "build", "--visits", "visits.csv", "--group-size", "20", "--out", "built")
    assert json.loads(run(command, *build, "--json", cwd=tmp_path))["groups"] == 3
    (tmp_path / "groups.csv").write_text("group,size\na,20\nb,20\n")
    (tmp_path / "log.csv").write_text(
        "impression_id,campaign,group,ts\n1,spring,a,2026-11-01T00:00:00Z\n"
        "2,spring,b,2026-11-01T01:00:00Z\n2,spring,b,2026-11-01T01:00:00Z\n"
    )
    files = ("--groups", "groups.csv", "--impressions", "log.csv", "--cap", "1", "--json")
    report = json.loads(run(command, "measure", *files, cwd=tmp_path))
    assert (report["impressions"], report["rejected"]["duplicate"]) == (2, 1)
    assert report["reports"][0]["reach"] == 2.0
    (tmp_path / "prices.csv").write_text("market_price\n1.0\n2.0\n")
    inputs = ("--groups", "groups.csv", "--prices", "prices.csv", "--requests", "100", "--cap", "1")
    assert json.loads(run(command, "plan", *inputs, "--budget", "10", "--json", cwd=tmp_path))
    keys = run(command, "keys", "add", "--role", "operator", "--store", "store", cwd=tmp_path)
    assert keys.startswith("kreach_")


def test_the_library_of_the_core_measures(core: Path, tmp_path: Path) -> None:
    program = (
        "import kreach as kr; print(kr.__file__);"
        " print(round(kr.measure(kr.Audience.disjoint([20] * 500), [30] * 500, cap=2).reach))"
    )
    where, reach = run(core / "bin" / "python", "-c", program, cwd=tmp_path).split()
    assert Path(where).is_relative_to(core)
    assert reach == "12318"


@pytest.mark.parametrize(
    ("arguments", "feature", "extra"),
    [
        ("demo", "kreach demo", "console"),
        ("demo --json", "kreach demo", "serve"),
        ("serve gateway", "kreach serve", "serve"),
        ("serve bidder", "kreach serve", "serve"),
        ("serve reporting", "kreach serve", "serve"),
        ("serve console", "kreach serve console", "console"),
        ("reproduce --out out", "kreach reproduce", "lab"),
        ("evaluate --visits v --prices p --out out", "kreach evaluate", "lab"),
        ("tradeoff --visits v --prices p --out out", "kreach tradeoff", "lab"),
        (
            "measure --groups g --impressions i --cap 1 --engine spark",
            "kreach measure --engine spark",
            "spark",
        ),
        ("jobs hourly --out out --engine spark", "kreach jobs --engine spark", "spark"),
        ("jobs nightly --out out --engine spark", "kreach jobs --engine spark", "spark"),
    ],
)
def test_a_command_names_the_extra_it_needs(
    core: Path, tmp_path: Path, arguments: str, feature: str, extra: str
) -> None:
    result = run_for_result(core / "bin" / "kreach", *arguments.split(), cwd=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    line = f"{feature} needs the extra {extra!r}: pip install 'kreach[{extra}]'\n"
    assert result.stderr == line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("program", "feature", "extra"),
    [
        ("import kreach; kreach.SparkEngine()", "the Spark engine", "spark"),
        (
            "from kreach.boundary.discrete_noise import opendp_draw; opendp_draw()",
            "[noise]",
            "dp",
        ),
        (
            "from kreach.adsystem.settings import RedisSettings\n"
            "from kreach.adsystem.sharing.redis_client import connect_redis\n"
            "connect_redis(RedisSettings(url='redis://127.0.0.1:1/0', bidders=('a', 'b')))",
            "[redis]",
            "redis",
        ),
        (
            "from pathlib import Path; from kreach.lab.exhibits import check_folder;"
            " check_folder(Path('out'))",
            "drawing figures",
            "lab",
        ),
    ],
)
def test_the_library_names_the_extra_it_needs(
    core: Path, tmp_path: Path, program: str, feature: str, extra: str
) -> None:
    result = run_for_result(core / "bin" / "python", "-c", program, cwd=tmp_path)
    assert result.returncode == 1
    line = f"{feature} needs the extra {extra!r}: pip install 'kreach[{extra}]'"
    assert result.stderr.rstrip().endswith(f"kreach.extras.MissingExtra: {line}")


def test_the_wheel_runs_the_services(serving: Path, tmp_path: Path) -> None:
    command = serving / "bin" / "kreach"
    size = ("--people", "400", "--minutes", "0.15", "--visits", "4", "--json")
    document = json.loads(run(command, "demo", *size, cwd=tmp_path))
    assert document["share_of_flight"] == 1.0
    assert {result["campaign"] for result in document["campaigns"]} == {
        *("spring-shoes", "city-concert", "acme.hiking-boots"),
    }
    assert all(result["impressions"] > 0 for result in document["campaigns"])
    assert list((tmp_path / "kreach-demo" / "store" / "log").rglob("*.parquet"))
    result = run_for_result(command, "demo", cwd=tmp_path)
    assert result.stderr.startswith("kreach demo needs the extra 'console': ")
