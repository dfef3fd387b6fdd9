// The page of train --preview: the first batch as the model reads it; see preview.py for what data holds.
function example(entry, number) {
  const said = make("div", {}, make("div", { class: "faint" }, `example ${number}`), ...entry.values.map(([name, text]) => make("div", {}, `${name}: `, make("b", {}, text))));
  const pictures = entry.pictures.map((address) => make("img", { src: address, alt: `example ${number}` }));
  return make("div", { class: pictures.length ? "example" : "example rows" }, ...pictures, said);
}

document.getElementById("parts").append(
  make("h1", {}, data.title),
  make("ul", {}, ...data.notes.map((note) => make("li", {}, note))),
  make("section", {}, make("h2", {}, "Columns"), make("div", { class: "scroll" }, make("table", {},
    make("tr", {}, ...["column", "type", "smallest", "mean", "largest"].map((name) => make("th", {}, name))),
    ...data.columns.map((row) => make("tr", {}, ...row.map((text) => make("td", {}, text))))))),
  make("section", {}, make("h2", {}, "Examples"), make("div", { class: "examples" }, ...data.examples.map(example))),
);
