"""The `kreach` command and its options."""

from typing import Annotated

import typer

from kreach import __version__
from kreach.cli.backup import backup, migrate, restore, settle
from kreach.cli.catalogues import catalogues
from kreach.cli.demo import demo
from kreach.cli.groups import groups
from kreach.cli.groups_apply import apply
from kreach.cli.groups_renew import renew
from kreach.cli.jobs import jobs
from kreach.cli.keys import keys
from kreach.cli.log import log
from kreach.cli.measure import measure
from kreach.cli.panel import panel
from kreach.cli.plan import plan
from kreach.cli.repair import repair
from kreach.cli.reproduce import reproduce
from kreach.cli.serve import serve
from kreach.cli.studies import evaluate, tradeoff

__all__ = ["app"]

app = typer.Typer(
    name="kreach",
    help="Measure reach, plan budgets and bid when the ad system knows only groups of people.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing the formatter takes longer than everything else
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"kreach {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass


for _command, _short_help in (
    (demo, "Run the whole system on this machine with simulated people."),
    (measure, "Report a campaign's reach, with intervals."),
    (panel, "Correct reach by the truth in a secret sample of groups."),
    (plan, "Forecast reach for a budget, or budget for a reach."),
    (reproduce, "Reproduce the paper's figures and table."),
    (evaluate, "Run the paper's real-world study on your own logs."),
    (tradeoff, "Measure what anonymity costs on your own logs, by k."),
    (backup, "Copy all stores of one side while its services run."),
    (restore, "Put a backup in place, fenced against spending twice."),
    (settle, "After a restore: book what was spent since the backup."),
    (migrate, "Bring the stores of one side to this version."),
):
    app.command(short_help=_short_help)(_command)
groups.command()(apply)
groups.command()(renew)
app.add_typer(groups, name="groups", no_args_is_help=True)
app.add_typer(catalogues, name="catalogues", no_args_is_help=True)
app.add_typer(keys, name="keys", no_args_is_help=True)
app.add_typer(log, name="log", no_args_is_help=True)
app.add_typer(repair, name="repair", no_args_is_help=True)
app.add_typer(serve, name="serve", no_args_is_help=True)
app.add_typer(jobs, name="jobs", no_args_is_help=True)
