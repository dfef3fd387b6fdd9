"""Tables with a row for each box."""

import pytest

from onnxgrad.errors import DataError
from onnxgrad.training.data.annotated.box_table import box_columns, read_box_table
from tests.training.data.annotated.sets import SETS

PICTURES = SETS / "coco" / "images"
TABLE = PICTURES / "boxes.csv"


def rows(header, *lines):
    return [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]


@pytest.mark.parametrize(
    ("header", "cells", "corners"),
    [
        ("path,class,x1,y1,x2,y2", "4,5,14,25", True),
        ("filename,label,xmin,ymin,xmax,ymax", "4,5,14,25", True),
        ("path,name,left,top,right,bottom", "4,5,14,25", True),
        ("path,class,x,y,w,h", "4,5,10,20", False),
        ("path,class,X,Y,Width,Height", "4,5,10,20", False),
    ],
)
def test_spellings_of_the_columns(header, cells, corners):
    column = header.split(",")[0]
    table = rows(header, f"000.png,bus,{cells}", f"000.png,car,{cells}", "002.png,,,,,", f"001.png,bus,{cells}")
    listing = read_box_table(table, TABLE, column)
    assert [path.name for path in listing.paths] == ["000.png", "002.png", "001.png"] and listing.classes == ["bus", "car"]
    assert [listing.answers.rows[row].tolist() for row in range(3)] == [
        [[0, 4, 5, 14, 25], [1, 4, 5, 14, 25]],
        [],
        [[0, 4, 5, 14, 25]],
    ]
    assert box_columns(header.split(","))[1] is corners and ("two corners" in listing.remarks[0]) is corners


def test_numbers_are_classes_of_their_own():
    listing = read_box_table(rows("path,class,x1,y1,x2,y2", "000.png,2,1,1,5,5", "001.png,0,1,1,5,5"), TABLE, "path")
    assert listing.classes == ["0", "1", "2"] and listing.answers.counts() == {0: 1, 2: 1}


def test_a_table_without_boxes():
    assert box_columns(["path", "target"]) is None
    with pytest.raises(DataError, match="has no columns of boxes"):
        read_box_table(rows("path,target", "000.png,1"), TABLE, "path")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("gone.png,bus,1,1,2,2", "row 2, column 'path': there is no file 'gone.png'"),
        ("000.png,bus,1,1,x,2", "row 2, column 'x2' is 'x', which is not a number"),
        ("000.png,bus,1,1,,2", "row 2, column 'x2' is ''"),
        ("000.png,,1,1,2,2", "row 2, column 'class' is empty"),
        ("000.png,bus,9,1,2,2", "row 2, columns x1, y1, x2, y2 ends before it begins"),
        ("000.png,boat,1,1,2,2", "the class 'boat' is not a class of the training data"),
    ],
)
def test_damaged_cells_are_named(line, said):
    with pytest.raises(DataError, match=said) as caught:
        read_box_table(rows("path,class,x1,y1,x2,y2", "000.png,bus,1,1,2,2", line), TABLE, "path", ["bus", "car"])
    assert "boxes.csv" in str(caught.value)
