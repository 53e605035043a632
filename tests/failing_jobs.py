"""Training jobs that fail, for tests of their goodput."""

from __future__ import annotations

from hypothesis import strategies as st

from anyformer.planning.failures import Failures, Saves, TrainingJob

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def job(mtbf=3 * HOUR, *, pause=30.0, write=None, load=30.0, devices=1, **failures):
    """A job by its own mean time between failures."""
    told = Failures(mtbf * devices, **{"detect": 300.0, "restart": 300.0} | failures)
    return TrainingJob(devices, told, Saves(pause, pause if write is None else write, load))


ANY_SPARES = st.none() | st.integers(0, 20)


@st.composite
def jobs(draw, spares=ANY_SPARES):
    """Jobs that fail once per minute to once per year."""
    pause = draw(st.floats(0.01, 600))
    write = pause + draw(st.sampled_from([0.0, 1.0, 300.0]))
    return job(
        draw(st.floats(60, 365 * DAY)),
        pause=pause,
        write=write,
        load=draw(st.floats(0, 600)),
        devices=draw(st.integers(1, 100_000)),
        detect=draw(st.floats(0, 600)),
        restart=draw(st.floats(0, 600)),
        repair=draw(st.floats(0, 30 * DAY)),
        spares=draw(spares),
    )
