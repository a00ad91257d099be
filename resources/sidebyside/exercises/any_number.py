"""Numbers of any kind: Python's, NumPy's, torch's, fractions and decimals."""

from typing import Any


def as_number(value: Any) -> float | None:
    """The value as a float; None for a text, a truth value, a list: for no number."""
    kind = str(getattr(value, "dtype", ""))
    if isinstance(value, bool | str | bytes) or kind in ("bool", "torch.bool"):
        return None
    try:
        return float(value) if getattr(value, "shape", ()) == () else None
    except Exception:
        return None
