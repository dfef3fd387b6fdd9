"""Pictures whose answers have a place in them, boxes, regions and masks, in the formats of the tools that people draw them with."""
