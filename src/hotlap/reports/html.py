"""A tuning, a profile or a study as one page that needs nothing else: no server, no network.

Everything that comes from the user or the machine is text to the page, never markup: jinja2 escapes
it, plots carry it as JSON in which no tag can end, and the page's own policy lets no script run but
the two it was made with.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
from typing import TYPE_CHECKING, Any

from hotlap import __version__
from hotlap.answers import SKIPPED, Answer, Done
from hotlap.records import Finding, Profile
from hotlap.reports import bars, facts, figures, intervals, machine, pictures, rows, study, wording
from hotlap.reports.figures import Figure
from hotlap.rules import WITH_ANY_FIGURE
from hotlap.tunings import Tuning

SECTIONS = {
    "phases": "Phases",
    "trials": "Trials",
    "steps": "Step times",
    "learning": "Learning",
    "memory": "Memory",
    "machine": "Machine",
    "recipe": "Recipe",
    "findings": "Findings",
    "environment": "Environment",
    "again": "Do it again",
}
PROFILED = ("phases", "findings", "steps", "learning", "memory", "machine", "environment", "again")

STUDIED = {
    "picture": "Picture",
    "table": "Table",
    "cells": "Cells",
    "environment": "Environment",
    "again": "Do it again",
}

if TYPE_CHECKING:
    from jinja2 import Environment


def render(tuning: Tuning) -> str:
    winner = tuning.winner
    after = winner.profile if winner is not None else None
    pair = [("before", tuning.baseline)] + ([("after", after)] if after is not None else [])
    plots = {
        "trials": intervals.figure(tuning),
        "steps": figures.steps(tuning.baseline, after),
        "losses": figures.losses(tuning),
    }
    return _page(
        "tuning.html.j2",
        plots,
        tuning=tuning,
        title=f"hotlap tune {shlex.join(tuning.command)}",
        verb="tune",
        sections=SECTIONS.items(),
        number=facts.number(tuning),
        facts=facts.of_tuning(tuning),
        phases=bars.phases(pair),
        rows=rows.of(tuning),
        memory=bars.memory([(name, one.memory) for name, one in pair]),
        usage=machine.usage([one for _, one in pair]),
        columns=[name for name, _ in pair],
        noise=facts.noise(tuning.noise),
        learning=facts.learning(tuning),
        peaks=facts.peaks(tuning),
        recipe=wording.recipe_text(tuning),
        findings=_findings(tuning.baseline),
        commands=facts.commands(tuning),
        **_about(tuning.baseline, tuning),
    )


def render_profile(profile: Profile) -> str:
    plots = {"steps": figures.steps(profile), "losses": figures.loss(profile)}
    return _page(
        "profile.html.j2",
        plots,
        profile=profile,
        title=f"hotlap profile {shlex.join(profile.command)}",
        verb="profile",
        sections=[
            (name, SECTIONS[name]) for name in PROFILED if name != "learning" or plots["losses"]
        ],
        facts=facts.of_profile(profile),
        phases=bars.phases([("a step", profile)]),
        memory=bars.memory([("at the peak", profile.memory)]),
        usage=machine.usage([profile]),
        columns=["value"],
        findings=_findings(profile),
        warnings=WITH_ANY_FIGURE,
        commands=[("Measure again", shlex.join(["hotlap", "profile", *profile.command]))],
        **_about(profile, profile),
    )


def render_answer(answer: Answer) -> str:
    plots = {f"study-{at}": pictures.figure(one) for at, one in enumerate(answer.pictures)}
    command = wording.study_command(answer)
    return _page(
        "study.html.j2",
        dict(plots),
        answer=answer,
        title=command,
        verb="study",
        sections={**STUDIED, "picture": "Pictures" if len(plots) > 1 else "Picture"}.items(),
        facts=[],
        rows=[
            (row, [(study.shown(row, one), study.between(row, one)) for one in answer.columns])
            for row in answer.rows
        ],
        cells=[(done, *_ran(done)) for done in answer.cells],
        commands=[("Measure again", command)],
        command=command,
        created=wording.when(answer.created),
        machine=wording.on(answer.machine),
        environment=machine.described(answer.machine),
        folder=answer.folder,
        measured_by=answer.hotlap,
        version=__version__,
    )


def _ran(done: Done) -> tuple[str, str]:
    """How long it took and what was run; nothing was of a cell that was skipped."""
    if done.status == SKIPPED:
        return wording.NOTHING, ""
    return wording.seconds(done.seconds), wording.cell_words(done.cell)


def _about(profile: Profile, result: Tuning | Profile) -> dict[str, Any]:
    """What both pages say of themselves."""
    return {
        "command": shlex.join(result.command),
        "created": wording.when(result.created),
        "machine": wording.machine(profile),
        "environment": machine.environment(profile),
        "unsplit": facts.unsplit(profile),
        "folder": result.folder,
        "measured_by": result.hotlap,
        "version": __version__,
    }


def _findings(profile: Profile) -> list[tuple[Finding, str]]:
    """Each with the place it points at, if it does."""
    return [
        (one, wording.place(one.file, one.line, profile.folder) if one.file else "")
        for one in profile.findings
    ]


def _page(template: str, plots: dict[str, Figure | None], **content: Any) -> str:
    from markupsafe import Markup

    environment = _environment()
    scripts = _scripts(environment) if any(plots.values()) else []
    page = environment.get_template(template).render(
        **content,
        plots=plots,
        style=Markup(_source(environment, "style.css")),
        scripts=[Markup(script) for script in scripts],
        hashes=" ".join(f"'sha256-{_hash(script)}'" for script in scripts) or "'none'",
    )
    # A file name that is no text is shown with its bytes escaped: the page is UTF-8 all through.
    return page.encode("utf-8", "backslashreplace").decode("utf-8")


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("hotlap.reports", "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        finalize=lambda value: wording.NOTHING if value is None else value,
    )
    environment.filters.update(
        speedup=wording.speedup,
        settings=wording.settings,
        numerics=lambda name: wording.NUMERICS.get(name, name),
        figure=_figure,
    )
    return environment


def _source(environment: Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _scripts(environment: Environment) -> list[str]:
    """plotly.js and what draws with it, each once."""
    from plotly.offline import get_plotlyjs

    scripts = [get_plotlyjs(), _source(environment, "draw.js")]
    return [script.replace("</script", r"<\/script") for script in scripts]


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _figure(figure: Figure) -> str:
    """JSON that may stand in a script element: nothing in it can end that element."""
    from markupsafe import Markup

    content = {"data": figure.data, "layout": figure.layout, "narrow": figure.narrow}
    text = json.dumps(content, allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
