"""Where the nodes of a drawn graph go."""

from __future__ import annotations

import random

from ephost.graph_layout import GAP, Placed, layered

Edge = tuple[int, int]
SIZE = (160.0, 38.0)


def drawn(count: int, edges: list[Edge]) -> Placed:
    return layered([SIZE] * count, edges)


def random_graph(count: int, seed: int) -> list[Edge]:
    drawing = random.Random(seed)
    edges = [(max(0, at - drawing.choice([1, 1, 2, 5, 40])), at) for at in range(1, count)]
    return edges + [(drawing.randrange(at), at) for at in range(1, count, 7)]


def overlaps(places: list[tuple[float, float]], sizes: list[tuple[float, float]]) -> list[Edge]:
    found = []
    order = sorted(range(len(places)), key=lambda at: places[at][1])
    for start, a in enumerate(order):
        for b in order[start + 1 :]:
            if places[b][1] >= places[a][1] + sizes[a][1]:
                break
            apart = places[b][0] - places[a][0]
            if -sizes[b][0] < apart < sizes[a][0]:
                found.append((a, b))
    return found


def test_a_chain_goes_straight_down() -> None:
    placed = drawn(4, [(0, 1), (1, 2), (2, 3)])
    assert placed.places == [(0.0, at * (SIZE[1] + GAP[1])) for at in range(4)]
    assert (placed.width, placed.height) == (SIZE[0], 4 * SIZE[1] + 3 * GAP[1])


def test_readers_are_below_and_an_edge_is_led_around_the_nodes_between() -> None:
    placed = drawn(4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    tops = [y for _, y in placed.places]
    assert tops == sorted(tops) and len(set(tops)) == 4
    assert list(placed.bends) == [3] and len(placed.bends[3]) == 2
    for (x, y), node in zip(placed.bends[3], (1, 2), strict=True):
        left, top = placed.places[node]
        assert top < y < top + SIZE[1] and not left - 1 < x < left + SIZE[0] + 1


def test_what_reads_nothing_is_right_before_its_reader() -> None:
    placed = drawn(5, [(0, 1), (1, 2), (2, 4), (3, 4)])
    assert placed.places[3][1] == placed.places[2][1]


def test_nothing_overlaps_and_everything_is_inside() -> None:
    for count, seed in ((40, 1), (700, 2), (3000, 3)):
        drawing = random.Random(seed)
        sizes = [(drawing.uniform(20, 400), drawing.uniform(20, 300)) for _ in range(count)]
        placed = layered(sizes, random_graph(count, seed))
        assert overlaps(placed.places, sizes) == []
        for (x, y), (w, h) in zip(placed.places, sizes, strict=True):
            assert x >= -1e-6 and y >= -1e-6
            assert x + w <= placed.width + 1e-6 and y + h <= placed.height + 1e-6


def test_a_long_chain_is_broken_into_columns_and_a_broad_row_into_rows() -> None:
    chain = drawn(5000, [(at, at + 1) for at in range(4999)])
    assert 0.5 < chain.width / chain.height < 4
    star = drawn(2000, [(0, at) for at in range(1, 2000)])
    assert star.width < 8000 * 3 and overlaps(star.places, [SIZE] * 2000) == []


def test_edges_that_lead_nowhere_or_back_are_left_out() -> None:
    placed = drawn(2, [(1, 0), (0, 5), (0, 0), (0, 1)])
    assert placed.places[1][1] > placed.places[0][1]
    assert layered([], []).width == 0
