import numpy as np

from onnxgrad.testing import Sample
from tests.core.rules.hiding import of_unknown_rank
from tests.core.rules.samples import samples

SHAPES = {"i": 3, "j": 2, "k": 4, "b": 2, "A": 2}


def operands(draw, equation):
    """One operand for each term, with the sizes above"""
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    return [draw.real(*(SHAPES[letter] for letter in term)) for term in terms]


@samples("Einsum")
def diagonals_and_sums(draw):
    for equation in (
        "ii->i", "ii->", "iij->j", "iij->ij", "iij->i", "iji->j", "iii->i", "iijj->ij", "ii,ij->j", "ij,ii->j", "iij,jk->ik",
    ):  # fmt: skip
        yield Sample(*operands(draw, equation), equation=equation)


@samples("Einsum")
def letters_and_operands(draw):
    for equation in (
        "i->", "ij->", "ijk->j", "ij->ij", "ijk->kij", "ij,jk,kb->ib", "ij,j,i,jk->k", "i,j->ij", "i,i->i", "i,i->", ",ij->j", "ij,->ji",
        "->", ",->", "i j , j k -> i k", "iA,Ak->ik", "Ai,Ak->Aik",
    ):  # fmt: skip
        yield Sample(*operands(draw, equation), equation=equation)
    for equation in ("ji", "ij,jk", "ij,ij", "ii", "kji"):
        yield Sample(*operands(draw, equation), equation=equation)


@samples("Einsum")
def dimensions_of_one(draw):
    yield Sample(draw.real(2, 1), draw.real(3, 4), equation="ij,jk->ik")
    yield Sample(draw.real(2, 3), draw.real(1, 4), equation="ij,jk->ik")
    yield Sample(draw.real(1), draw.real(4), equation="i,i->")
    yield Sample(draw.real(4), draw.real(1), draw.real(1), equation="i,i,i->")
    yield Sample(draw.real(1, 3), draw.real(2, 3), equation="ij,ij->i")
    yield Sample(draw.real(3, 3), draw.real(1), equation="ii,i->")
    yield Sample(draw.real(2, 0), draw.real(0, 3), equation="ij,jk->ik")
    yield Sample(draw.real(0), draw.real(2), equation="i,j->j")


ELLIPSES = (
    ("...i,ij->...j", (2, 4, 3), (3, 2)),
    ("i...,i...->...", (3, 2), (3, 2)),
    ("...i->...", (2, 2, 3), None),
    ("i...j->j...i", (3, 2, 2), None),
    ("...ij,...jk", (2, 3, 2), (2, 2, 4)),
    ("...ij,...jk->...ik", (1, 3, 2), (2, 2, 4)),
    ("...ii->...i", (2, 3, 3), None),
    ("i...i->...", (3, 2, 3), None),
    ("i...i->i...", (3, 2, 3), None),
    ("...ik,j->...k", (2, 3, 2), (2,)),
    ("ij,...j->...i", (3, 2), (4, 2, 2)),
    ("...,...->...", (2, 3), (2, 3)),
    ("i,...->...", (3,), (2, 2)),
)


@samples("Einsum")
def ellipses(draw):
    for equation, *shapes in ELLIPSES:
        arrays = [draw.real(*shape) for shape in shapes if shape is not None]
        yield Sample(*arrays, equation=equation)
        yield Sample(
            *arrays, build=lambda op, *v, equation=equation: op.Einsum(*(of_unknown_rank(op, x) for x in v), equation=equation)
        )


@samples("Einsum")
def ellipses_that_the_output_omits(draw):
    # onnxruntime refuses these forward; their gradients run unless they need such an Einsum again.
    yield Sample(draw.real(2, 3), draw.real(2, 3), equation="b...,b...->b", runs=True)
    yield Sample(draw.real(2, 3, 2), equation="...i->i")
    yield Sample(draw.real(2, 3, 2), draw.real(2, 2), equation="...i,ij->j")
    yield Sample(draw.real(3, 2, 3), equation="i...i->i")
    yield Sample(np.array([[1.0, 2.0]]), equation="...->")
