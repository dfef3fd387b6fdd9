// The page of explain-text: tokens, and what each adds to the score.
const most = Math.max(...data.tokens.map((entry) => Math.abs(entry.adds)), 1e-30), text = make("p");
for (const { token, adds } of data.tokens) {
  const element = make("span", { title: adds.toPrecision(3) }, token);
  element.style.background = `color-mix(in srgb, var(${adds > 0 ? "--c2" : "--c1"}) ${Math.round(70 * Math.abs(adds) / most)}%, transparent)`;
  text.append(element, " ");
}
document.getElementById("parts").append(
  make("h1", {}, data.title), text,
  make("div", { class: "faint" }, `Green raises the score, orange lowers it. The sum of contributions differs from the change of the score by ${(100 * data.completeness_gap).toFixed(1)} %.`),
);
