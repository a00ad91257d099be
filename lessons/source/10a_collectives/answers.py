"""Wrong answers to the exercises of lesson 10a, and unusual right ones."""

from itertools import combinations

import torch
import torch.distributed as dist

from lessons.source.sample_answers import right, wrong
from parallel_by_hand.collectives import eight_collectives
from parallel_by_hand.collectives.eight_collectives import exchange, other_ranks
from sidebyside import device

# 10a-reduce-scatter -------------------------------------------------------------------


def _rank() -> int:
    return dist.get_rank()


def _arrived(tensor, pieces) -> list:
    """The own piece, and those that the others have for this rank."""
    rooms = {r: torch.empty_like(tensor) for r in other_ranks()}
    exchange({r: pieces[r] for r in rooms}, rooms)
    return [pieces[_rank()], *rooms.values()]


@wrong(
    "10a-reduce-scatter",
    advice="who receives",
    state="HUNG",
    note="A send that waits, on every rank: nobody comes to the receive.",
)
def columns_that_all_send_first(tensor, pieces):
    for other in other_ranks():
        dist.send(pieces[other], other)
    tensor.copy_(pieces[_rank()])
    for other in other_ranks():
        room = torch.empty_like(tensor)
        dist.recv(room, other)
        tensor += room


@wrong(
    "10a-reduce-scatter",
    advice="what `tensor` held before",
    note="`tensor` is room for the result; nobody says that it holds zeros.",
)
def columns_on_top_of_the_old(tensor, pieces):
    tensor += sum(_arrived(tensor, pieces))


@wrong(
    "10a-reduce-scatter",
    advice="`pieces` has changed",
    note="The own piece is a handy place to add to; it belongs to the caller.",
)
def columns_added_into_pieces(tensor, pieces):
    own, *others = _arrived(tensor, pieces)
    for piece in others:
        own += piece
    tensor.copy_(own)


@wrong(
    "10a-reduce-scatter",
    advice="is it filled in place",
    note="They return the sum, as a function without messages would.",
)
def columns_returned(tensor, pieces):
    return sum(_arrived(tensor, pieces))


@wrong(
    "10a-reduce-scatter",
    advice="the library's all_reduce",
    note="The sum of everything, of which each rank needs one part: twice the traffic.",
)
def columns_by_all_reduce(tensor, pieces):
    everything = torch.cat([piece.flatten() for piece in pieces])
    dist.all_reduce(everything)
    sizes = [piece.numel() for piece in pieces]
    tensor.copy_(everything.split(sizes)[_rank()].view_as(tensor))


@wrong(
    "10a-reduce-scatter",
    advice="each rank's pieces.r., once",
    note="pieces[rank] is the one piece that no other rank wants.",
)
def columns_of_the_sender(tensor, pieces):
    own = pieces[_rank()]
    tensor.copy_(sum(_arrived(own, [own] * len(pieces))))


@right("10a-reduce-scatter")
def columns_one_after_the_other(tensor, pieces):
    """With room for one piece."""
    sending = [dist.isend(pieces[other], other) for other in other_ranks()]
    tensor.copy_(pieces[_rank()])
    room = torch.empty_like(tensor)
    for other in other_ranks()[::-1]:
        dist.recv(room, other)
        tensor.add_(room)
    for request in sending:
        request.wait()


right("10a-reduce-scatter", name="by_all_to_all")(eight_collectives.reduce_scatter)


# 10a-all-to-all -----------------------------------------------------------------------


def _keep_own(received, pieces):
    received[_rank()].copy_(pieces[_rank()])


@wrong(
    "10a-all-to-all",
    advice="sends first",
    state="HUNG",
    note="Both of a pair send first; with gloo a send waits for its receive.",
)
def pieces_sent_first(received, pieces):
    _keep_own(received, pieces)
    for other in other_ranks():
        dist.send(pieces[other], other)
        dist.recv(received[other], other)


@wrong(
    "10a-all-to-all",
    advice="sends first",
    state="HUNG",
    note="Odd and even ranks swap. With four ranks, 0 and 2 both send first.",
)
def pieces_of_even_ranks_first(received, pieces):
    _keep_own(received, pieces)
    for shift in range(1, len(pieces)):
        to, source = (_rank() + shift) % len(pieces), (_rank() - shift) % len(pieces)
        if _rank() % 2 == 0:
            dist.send(pieces[to], to)
            dist.recv(received[source], source)
        else:
            dist.recv(received[source], source)
            dist.send(pieces[to], to)


@wrong(
    "10a-all-to-all",
    advice="the own piece",
    note="Nothing travels for the own piece, so it is forgotten.",
)
def pieces_without_the_own(received, pieces):
    for other in sorted(other_ranks()):
        _swap(received, pieces, other)


def _swap(received, pieces, other, place=None):
    place = other if place is None else place
    if _rank() < other:
        dist.send(pieces[place], other)
        dist.recv(received[other], other)
    else:
        dist.recv(received[other], other)
        dist.send(pieces[place], other)


@wrong(
    "10a-all-to-all",
    advice="which calls are allowed",
    note="`exchange` is the cure for programs in earnest; this is the puzzle.",
)
def pieces_under_way_together(received, pieces):
    eight_collectives.all_to_all(received, pieces)


@wrong(
    "10a-all-to-all",
    advice="the library's all_to_all",
    note="The call that is to be written is called.",
)
def pieces_by_library(received, pieces):
    dist.all_to_all(received, pieces)


@wrong(
    "10a-all-to-all",
    advice="which piece goes to which rank",
    note="Index and peer are mixed up: everybody gets the piece at the sender's index.",
)
def pieces_of_the_wrong_place(received, pieces):
    _keep_own(received, pieces)
    for other in sorted(other_ranks()):
        _swap(received, pieces, other, place=_rank())


@wrong(
    "10a-all-to-all",
    advice="filled in place",
    note="The list has new tensors; the caller's are as they were.",
)
def pieces_in_new_tensors(received, pieces):
    for other in range(len(pieces)):
        received[other] = torch.empty_like(received[other])
        if other == _rank():
            received[other] = pieces[other]
        else:
            _swap(received, pieces, other)


@right("10a-all-to-all")
def pieces_in_tournament(received, pieces):
    """Right: N rounds, and in each of them all pairs swap at the same time."""
    for turn in range(len(pieces)):
        other = (turn - _rank()) % len(pieces)
        if other == _rank():
            _keep_own(received, pieces)
        else:
            _swap(received, pieces, other)


@right("10a-all-to-all")
def pieces_in_list_of_pairs(received, pieces):
    """Right: everyone walks through the same list of all pairs."""
    _keep_own(received, pieces)
    for low, high in combinations(range(len(pieces)), 2):
        if _rank() in (low, high):
            _swap(received, pieces, low + high - _rank())


# 10a-experts --------------------------------------------------------------------------


def _go_out(tokens, chosen):
    order = torch.argsort(chosen)
    to_each = torch.bincount(chosen, minlength=dist.get_world_size())
    from_each = torch.empty_like(to_each)
    dist.all_to_all_single(from_each, to_each)
    out, back = to_each.tolist(), from_each.tolist()
    visitors = tokens.new_empty(sum(back), *tokens.shape[1:])
    dist.all_to_all_single(visitors, tokens[order], back, out)
    return order, out, back, visitors


def _come_back(tokens, answers, out, back):
    returned = torch.empty_like(tokens)
    dist.all_to_all_single(returned, answers, out, back)
    return returned


@wrong(
    "10a-experts",
    advice="the order of the answers",
    note="The answers are right and stand in the order of the experts.",
)
def experts_in_sorted_order(tokens, chosen, expert):
    _, out, back, visitors = _go_out(tokens, chosen)
    return _come_back(tokens, expert(visitors), out, back)


@wrong(
    "10a-experts",
    advice="on the way out and on the way back",
    note="On the way back the two lists have to change places.",
)
def experts_with_the_lists_of_the_way_out(tokens, chosen, expert):
    order, out, back, visitors = _go_out(tokens, chosen)
    answers = torch.empty_like(tokens)
    answers[order] = _come_back(tokens, expert(visitors), back, out)
    return answers


@wrong(
    "10a-experts",
    advice="which rows go to which rank",
    note="Each rank asks its own expert, whatever was chosen.",
)
def experts_at_home(tokens, chosen, expert):
    return expert(tokens)


@wrong(
    "10a-experts",
    advice="which collective sends each rank its own rows",
    note="Everybody gets all tokens and picks: right, with N times the traffic.",
)
def experts_for_all_tokens_of_all(tokens, chosen, expert):
    rank, ranks = _rank(), dist.get_world_size()
    everyone = [None] * ranks
    dist.all_gather_object(everyone, (tokens, chosen))
    wants = torch.cat([wishes for _, wishes in everyone])
    rows = torch.cat([rows for rows, _ in everyone])
    said = expert(rows[wants == rank])
    everything = torch.zeros_like(rows)
    everything[wants == rank] = said
    dist.all_reduce(everything)
    start = sum(len(rows) for rows, _ in everyone[:rank])
    return everything[start : start + len(tokens)]


@wrong(
    "10a-experts",
    advice="once on each rank",
    note="A call for the rows of each rank; the expert should see one large batch.",
)
def experts_called_for_each_rank(tokens, chosen, expert):
    order, out, back, visitors = _go_out(tokens, chosen)
    said = torch.cat([expert(rows) for rows in visitors.split(back)])
    answers = torch.empty_like(tokens)
    answers[order] = _come_back(tokens, said, out, back)
    return answers


@wrong(
    "10a-experts",
    advice="was called 0 times|on the way out",
    note="bincount without minlength forgets the ranks that nobody has chosen.",
)
def experts_counted_too_short(tokens, chosen, expert):
    order = torch.argsort(chosen)
    to_each = torch.bincount(chosen)
    from_each = torch.empty_like(to_each)
    dist.all_to_all_single(from_each, to_each)
    return tokens[order]


@right("10a-experts")
def experts_by_messages(tokens, chosen, expert):
    all_to_all, ranks = eight_collectives.all_to_all, range(dist.get_world_size())
    groups = [tokens[chosen == r] for r in ranks]
    counts = [torch.tensor([len(group)], device=device()) for group in groups]
    coming = [torch.empty_like(count) for count in counts]
    all_to_all(coming, counts)
    visitors = [tokens.new_empty(int(n), tokens.shape[1]) for n in coming]
    all_to_all(visitors, groups)
    said = expert(torch.cat(visitors)).split([len(rows) for rows in visitors])
    returned = [torch.empty_like(group) for group in groups]
    all_to_all(returned, [rows.contiguous() for rows in said])
    answers = torch.empty_like(tokens)
    for r in ranks:
        answers[chosen == r] = returned[r]
    return answers


@right("10a-experts")
def experts_with_the_inverse_order(tokens, chosen, expert):
    """Right: the inverse of the order is its argsort."""
    order, out, back, visitors = _go_out(tokens, chosen)
    returned = _come_back(tokens, expert(visitors), out, back)
    return returned[torch.argsort(order)]
