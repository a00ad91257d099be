"""Two laws of speedup, and a measurement on 1024 processors to hold them against."""


def amdahl(share: float, workers: float) -> float:
    """Speedup of a fixed amount of work, of which one worker spends `share` serially.

    G. M. Amdahl, Validity of the single processor approach, AFIPS 1967.
    """
    return 1 / (share + (1 - share) / workers)


def gustafson(share: float, workers: float) -> float:
    """Scaled speedup: the work grows with the workers and so fills the same time.

    `share` is the serial part of the time that the *workers* need, not of the time
    that one would need. J. L. Gustafson, Reevaluating Amdahl's law, CACM 31(5), 1988.
    """
    return share + (1 - share) * workers


PROCESSORS = 1024  # of an nCUBE hypercube; all figures below from Gustafson 1988
SERIAL_SHARES = 0.004, 0.008  # "0.4-0.8 percent"
SCALED_SPEEDUPS = {"beam stress": 1021, "surface waves": 1020, "unstable flow": 1016}
