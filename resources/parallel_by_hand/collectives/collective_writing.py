"""Write who holds what before and after a collective, for terminals and alt texts."""

from parallel_by_hand.collectives.who_holds_what import CollectiveRun, Held


def collective_text(name: str, run: CollectiveRun) -> str:
    """Who holds what, in letters: a line for each rank, a dot for nothing."""
    ranks = range(len(run.before))
    tables = [
        [[written_piece(row, column) for column in ranks] for row in rows]
        for rows in (run.before, run.after)
    ]
    wide = max(len(word) for table in tables for row in table for word in row)
    lines = [name.replace("_", "-")]
    lines.append(f"        {'before':<{len(ranks) * (wide + 1) + 1}} after")
    for rank, (before, after) in enumerate(zip(*tables, strict=True)):
        cells = [" ".join(word.rjust(wide) for word in row) for row in (before, after)]
        lines.append(f"rank {rank} | {cells[0]} | {cells[1]}".rstrip())
    return "\n".join(lines)


def written_piece(row: Held, column: int) -> str:
    """What is written of one rank's piece: a dot for nothing."""
    if column not in row:
        return "."
    return "?" if row[column] is None else str(row[column])
