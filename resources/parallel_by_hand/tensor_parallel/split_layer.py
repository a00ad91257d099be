"""One layer split over ranks, by its columns and by its rows."""

import torch


def split_columns(matrix: torch.Tensor, ranks: int) -> tuple[torch.Tensor, ...]:
    """A layer's columns for each rank, in order: its neurons, with all their inputs."""
    return matrix.tensor_split(ranks, dim=1)


def split_rows(matrix: torch.Tensor, ranks: int) -> tuple[torch.Tensor, ...]:
    """A layer's rows for each rank, in order: its inputs, to all neurons."""
    return matrix.tensor_split(ranks, dim=0)


def outputs_by_columns(x: torch.Tensor, matrix: torch.Tensor, ranks: int) -> list:
    """What each rank computes of a layer: some outputs. Side by side, x @ matrix."""
    return [x @ columns for columns in split_columns(matrix, ranks)]


def outputs_by_rows(x: torch.Tensor, matrix: torch.Tensor, ranks: int) -> list:
    """What each rank computes of a layer: one summand of every output of x @ matrix."""
    parts = zip(split_columns(x, ranks), split_rows(matrix, ranks), strict=True)
    return [x_part @ rows for x_part, rows in parts]


def labelled_matrix(inputs: int, outputs: int) -> torch.Tensor:
    """A layer with 10 ** i times 1, 2, 3, ... in row i, so that digits name inputs."""
    return torch.outer(10 ** torch.arange(inputs), 1 + torch.arange(outputs))


def split_layer_in_a_row(numbers: torch.Tensor) -> str:
    """The numbers of a split layer in a line of text."""
    return " ".join(f"{number:6}" for number in numbers.flatten().tolist())
