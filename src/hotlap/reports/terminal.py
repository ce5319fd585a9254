"""A profile as a person reads it in a terminal."""

from __future__ import annotations

from hotlap.records import Profile


def render(profile: Profile) -> str:
    p = profile
    return "\n".join(
        [
            p.verdict.sentence,
            str({k: round(v, 3) for k, v in p.verdict.shares.items()}),
            " ".join(
                f"{n}={ph.seconds and round(ph.seconds * 1e3, 2)}" for n, ph in p.phases.items()
            ),
            str(p.step),
            str(p.startup),
            str(p.memory),
            str(p.usage),
            str(p.kernels),
            str(p.problems),
            str(p.ranks),
            str(p.loaders),
        ]
    )
