"""Write tests/data/annotated/sets: a few pictures with their answers in each format, and what the formats' own tools read there.

    python models/annotated/write_sets.py [FOLDER]

It takes numpy and Pillow, and for the references pycocotools and torchvision.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from PIL import Image, ImageDraw

OUT = Path(__file__).parents[2] / "tests" / "data" / "annotated" / "sets"
NAMES = ("bus", "car", "tree")
IDS = {"bus": 7, "car": 2, "tree": 90}
COLOURS = {"background": (0, 0, 0), "bus": (200, 30, 30), "car": (30, 30, 200), "tree": (30, 160, 30)}
SIZES = ((64, 48), (48, 64), (60, 60), (80, 40))


def scene(draw: np.random.Generator, size: tuple[int, int], count: int) -> tuple[Image.Image, Image.Image, list[tuple]]:
    """A picture of rectangles, its mask (0 for the ground, 1 and on for classes) and (class, x1, y1, x2, y2) of each"""
    width, height = size
    picture = Image.new("RGB", size, tuple(int(v) for v in draw.integers(180, 250, 3)))
    mask = Image.new("P", size, 0)
    mask.putpalette([*(v for name in COLOURS for v in COLOURS[name]), *[0] * 753, 224, 224, 192])
    things = []
    for _ in range(count):
        kind = int(draw.integers(len(NAMES)))
        w, h = int(draw.integers(8, 20)), int(draw.integers(8, 20))
        x, y = int(draw.integers(0, width - w)), int(draw.integers(0, height - h))
        ImageDraw.Draw(picture).rectangle((x, y, x + w - 1, y + h - 1), COLOURS[NAMES[kind]])
        ImageDraw.Draw(mask).rectangle((x, y, x + w - 1, y + h - 1), 1 + kind)
        things.append((kind, x, y, x + w, y + h))
    return picture, mask, things


def scenes(seed: int, count: int) -> list[tuple]:
    draw = np.random.default_rng(seed)
    return [scene(draw, SIZES[i % len(SIZES)], 0 if i == 2 else int(draw.integers(1, 4))) for i in range(count)]


def write_coco(folder: Path, drawn: list[tuple]) -> dict:
    """instances_train.json with ids that have gaps, a crowd as run lengths, and polygons; read back by pycocotools"""
    from pycocotools import mask as runs
    from pycocotools.coco import COCO

    (folder / "images").mkdir(parents=True)
    (folder / "annotations").mkdir()
    record = {"info": {}, "images": [], "annotations": [], "categories": [{"id": IDS[name], "name": name} for name in NAMES]}
    for number, (picture, mask, things) in enumerate(drawn):
        name = f"{number:03}.png"
        picture.save(folder / "images" / name, optimize=True)
        record["images"].append({"id": 100 + 3 * number, "file_name": name, "width": picture.width, "height": picture.height})
        for kind, x1, y1, x2, y2 in things:
            entry = {"id": len(record["annotations"]) + 1, "image_id": 100 + 3 * number, "category_id": IDS[NAMES[kind]]}
            entry["iscrowd"] = 0
            entry["bbox"] = [x1, y1, x2 - x1, y2 - y1]
            entry["segmentation"] = [[x1, y1, x2, y1, x2, y2, x1, y2]]
            entry["area"] = (x2 - x1) * (y2 - y1)
            record["annotations"].append(entry)
        if number == 0:
            encoded = runs.encode(np.asfortranarray(np.asarray(mask) > 0))
            record["annotations"].append({
                "id": 1000, "image_id": 100, "category_id": IDS["tree"], "iscrowd": 1, "bbox": runs.toBbox(encoded).tolist(),
                "area": float(runs.area(encoded)), "segmentation": {"size": encoded["size"], "counts": encoded["counts"].decode()},
            })  # fmt: skip
    path = folder / "annotations" / "instances_train.json"
    path.write_text(json.dumps(record))
    coco = COCO(path)
    boxes = {}
    for image in coco.loadImgs(coco.getImgIds()):
        own = coco.loadAnns(coco.getAnnIds(imgIds=[image["id"]], iscrowd=False))
        boxes[image["file_name"]] = [[coco.loadCats(a["category_id"])[0]["name"], *a["bbox"]] for a in own]
    counts = {c["name"]: len(coco.getAnnIds(catIds=[c["id"]], iscrowd=False)) for c in coco.loadCats(coco.getCatIds())}
    classes = [category["name"] for category in coco.loadCats(sorted(coco.getCatIds()))]
    return {"boxes": boxes, "counts": counts, "crowds": len(coco.getAnnIds(iscrowd=True)), "classes": classes}


def write_yolo(folder: Path, drawn: list[tuple]) -> dict:
    """data.yaml as its tools write it, with shares of six digits; the picture without boxes has no file"""
    counts = dict.fromkeys(NAMES, 0)
    for number, (picture, _, things) in enumerate(drawn):
        part = "val" if number % 4 == 3 else "train"
        for kind in ("images", "labels"):
            (folder / kind / part).mkdir(parents=True, exist_ok=True)
        picture.save(folder / "images" / part / f"{number:03}.png", optimize=True)
        rows = []
        for kind, x1, y1, x2, y2 in things:
            w, h = picture.size
            shares = ((x1 + x2) / 2 / w, (y1 + y2) / 2 / h, (x2 - x1) / w, (y2 - y1) / h)
            rows.append(" ".join([str(kind), *(f"{v:.6f}" for v in shares)]))
            counts[NAMES[kind]] += part == "train"
        if rows:
            (folder / "labels" / part / f"{number:03}.txt").write_text("\n".join(rows) + "\n")
    names = "\n".join(f"  {number}: {name}" for number, name in enumerate(NAMES))
    text = f"path: .  # root of the set\ntrain: images/train\nval: images/val\n\n# Classes\nnames:\n{names}\n"
    (folder / "data.yaml").write_text(text)
    return {"counts": counts}


def write_voc(folder: Path, drawn: list[tuple]) -> dict:
    """Annotations as the devkit has them, corners from 1; read back by torchvision"""
    from torchvision.datasets import VOCDetection

    for name in ("Annotations", "JPEGImages", "ImageSets/Main"):
        (folder / name).mkdir(parents=True)
    names = {"train": [], "val": []}
    for number, (picture, _mask, things) in enumerate(drawn):
        name = f"2012_{number:06}"
        names["val" if number % 4 == 3 else "train"].append(name)
        picture.save(folder / "JPEGImages" / f"{name}.jpg", quality=70)
        root = ElementTree.Element("annotation")
        ElementTree.SubElement(root, "folder").text = "VOC2012"
        ElementTree.SubElement(root, "filename").text = f"{name}.jpg"
        size = ElementTree.SubElement(root, "size")
        for tag, value in zip(("width", "height", "depth"), (*picture.size, 3), strict=True):
            ElementTree.SubElement(size, tag).text = str(value)
        for at, (kind, x1, y1, x2, y2) in enumerate(things):
            entry = ElementTree.SubElement(root, "object")
            ElementTree.SubElement(entry, "name").text = NAMES[kind]
            ElementTree.SubElement(entry, "difficult").text = str(int(at == 2))
            place = ElementTree.SubElement(entry, "bndbox")
            for tag, value in zip(("xmin", "ymin", "xmax", "ymax"), (x1 + 1, y1 + 1, x2, y2), strict=True):
                ElementTree.SubElement(place, tag).text = str(value)
        ElementTree.indent(root)
        ElementTree.ElementTree(root).write(folder / "Annotations" / f"{name}.xml")
    for part, listed in names.items():
        (folder / "ImageSets" / "Main" / f"{part}.txt").write_text("\n".join(listed) + "\n")
    read = {}
    for name in names["train"]:
        root = ElementTree.parse(folder / "Annotations" / f"{name}.xml").getroot()
        objects = VOCDetection.parse_voc_xml(root)["annotation"].get("object", [])
        tags = ("xmin", "ymin", "xmax", "ymax")
        read[name] = [[o["name"], *(int(o["bndbox"][tag]) for tag in tags), o["difficult"]] for o in objects]
    return {"boxes": read}


def write_masks(folder: Path, drawn: list[tuple]) -> dict:
    """Palette masks with a void edge, numbers and colours; counts of pixels by class"""
    counts: dict[str, int] = {}
    for kind in ("images", "masks", "numbers", "coloured"):
        (folder / kind).mkdir(parents=True)
    for number, (picture, mask, _) in enumerate(drawn):
        name = f"{number:03}.png"
        picture.save(folder / "images" / name, optimize=True)
        void = mask.copy()
        ImageDraw.Draw(void).line((0, 0, mask.width - 1, 0), 255)
        void.save(folder / "masks" / name, optimize=True)
        plain = Image.fromarray(np.asarray(mask))
        plain.save(folder / "numbers" / name, optimize=True)
        mask.convert("RGB").save(folder / "coloured" / name, optimize=True)
        for value, pixels in zip(*np.unique(np.asarray(void), return_counts=True), strict=True):
            counts[str(value)] = counts.get(str(value), 0) + int(pixels)
    table = ["name,r,g,b", *(f"{name},{r},{g},{b}" for name, (r, g, b) in COLOURS.items())]
    (folder / "coloured" / "class_dict.csv").write_text("\n".join(table) + "\n")
    return {"pixels": counts}


def write_regions(folder: Path, drawn: list[tuple]) -> dict:
    """gt_*.txt of ICDAR 2015 and a Label.txt of PaddleOCR, of the same regions"""
    (folder / "icdar").mkdir(parents=True)
    (folder / "paddle" / "pictures").mkdir(parents=True)
    lines = []
    for number, (picture, _, things) in enumerate(drawn[:3]):
        rows, entries = [], []
        for at, (kind, x1, y1, x2, y2) in enumerate(things):
            corners = [[x1, y1], [x2, y1 + 1], [x2, y2], [x1, y2 - 1]]
            text = "###" if at == 1 else NAMES[kind]
            rows.append(",".join([*(str(v) for corner in corners for v in corner), text]))
            entries.append({"transcription": text, "points": corners, "difficult": False})
        picture.save(folder / "icdar" / f"img_{number}.jpg", quality=70)
        (folder / "icdar" / f"gt_img_{number}.txt").write_text("\r\n".join(rows), encoding="utf-8-sig")
        picture.save(folder / "paddle" / "pictures" / f"img_{number}.jpg", quality=70)
        lines.append(f"pictures/img_{number}.jpg\t{json.dumps(entries)}")
    (folder / "paddle" / "Label.txt").write_text("\n".join(lines) + "\n")
    return {"regions": [len(things) for _, _, things in drawn[:3]]}


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    drawn = scenes(3, 8)
    reference = {
        "coco": write_coco(out / "coco", drawn),
        "yolo": write_yolo(out / "yolo", drawn),
        "voc": write_voc(out / "voc", drawn),
        "masks": write_masks(out / "masks", drawn[:4]),
        "regions": write_regions(out / "regions", drawn),
        "things": [[list(map(int, thing)) for thing in things] for _, _, things in drawn],
    }
    (out / "reference.json").write_text(json.dumps(reference) + "\n")


if __name__ == "__main__":
    main()
