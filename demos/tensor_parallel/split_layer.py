"""Split one layer over ranks, by its columns and by its rows, with numbers to follow.

Run:      python demos/tensor_parallel/split_layer.py
Look for: row i of the matrix holds only multiples of 10^i, and all inputs are 1, so
          each digit of an output says which input has been counted. By columns, each
          rank has some outputs, complete. By rows, it has all outputs, of its own
          inputs only: the sum is still to come.
Try:      --ranks 3. Parts differ by one column or row, and nothing else changes.
"""

import torch

from parallel_by_hand.tensor_parallel.split_layer import (
    labelled_matrix,
    outputs_by_columns,
    outputs_by_rows,
    split_layer_in_a_row,
)
from sidebyside import at_least, program_parser, run_program


def main() -> None:
    parser = program_parser(__doc__)
    parser.add_argument("--ranks", type=at_least(1, 6), default=2)
    ranks = parser.parse_args().ranks
    x, matrix = torch.ones(1, 4, dtype=torch.int64), labelled_matrix(4, 4)

    print("the matrix of the layer; all inputs are 1")
    for row in matrix:
        print(f"  {split_layer_in_a_row(row)}")
    print(f"whole    {split_layer_in_a_row(x @ matrix)}")
    columns = outputs_by_columns(x, matrix, ranks)
    rows = outputs_by_rows(x, matrix, ranks)
    for how, outputs in (("by columns", columns), ("by rows", rows)):
        print(how)
        for rank, output in enumerate(outputs):
            print(f"  rank {rank} {split_layer_in_a_row(output)}")
    side_by_side, added = torch.cat(columns, 1), sum(rows)
    print(
        f"columns side by side are the whole: {torch.equal(side_by_side, x @ matrix)}"
    )
    print(f"rows added up are the whole:        {torch.equal(added, x @ matrix)}")


if __name__ == "__main__":
    run_program(main)
