"""One layer split over ranks, by its columns and by its rows."""

import torch


def split_columns(matrix: torch.Tensor, ranks: int) -> tuple[torch.Tensor, ...]:
    """Each rank's columns, in rank order: its neurons, with all their inputs."""
    return matrix.tensor_split(ranks, dim=1)


def split_rows(matrix: torch.Tensor, ranks: int) -> tuple[torch.Tensor, ...]:
    """Each rank's rows, in rank order: its inputs, to all neurons."""
    return matrix.tensor_split(ranks, dim=0)


def outputs_by_columns(x: torch.Tensor, matrix: torch.Tensor, ranks: int) -> list:
    """What each rank computes: some outputs. Side by side they are x @ matrix."""
    return [x @ columns for columns in split_columns(matrix, ranks)]


def outputs_by_rows(x: torch.Tensor, matrix: torch.Tensor, ranks: int) -> list:
    """What each rank computes: one summand of every output. Their sum is x @ matrix."""
    parts = zip(split_columns(x, ranks), split_rows(matrix, ranks), strict=True)
    return [x_part @ rows for x_part, rows in parts]


def labelled_matrix(inputs: int, outputs: int) -> torch.Tensor:
    """Row i holds 10 ** i times 1, 2, 3, ...: a digit of a sum names its input."""
    return torch.outer(10 ** torch.arange(inputs), 1 + torch.arange(outputs))


def split_layer_in_a_row(numbers: torch.Tensor) -> str:
    return " ".join(f"{number:6}" for number in numbers.flatten().tolist())
