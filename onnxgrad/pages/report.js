// The page of training.Report: see report.py for what data holds.
const parts = document.getElementById("parts"), contents = document.getElementById("contents");
const COLOURS = ["var(--c0)", "var(--c1)", "var(--c2)", "var(--c3)", "var(--c4)"];
const tip = make("div", { id: "tip", hidden: true });
document.body.append(tip);

function short(x) {
  if (x === null || x === undefined) return "not finite";
  if (typeof x !== "number") return String(x);
  if (x === 0 || (Math.abs(x) >= 1e-3 && Math.abs(x) < 1e5)) return String(+x.toPrecision(4));
  return x.toExponential(2);
}
function bytes(n) {
  if (typeof n !== "number") return String(n);
  for (const unit of ["B", "kB", "MB", "GB"]) { if (n < 1000 || unit === "GB") return `${unit === "B" ? n : n.toFixed(1)} ${unit}`; n /= 1000; }
}
function clock(s) {
  const whole = Math.round(s), h = Math.floor(whole / 3600), m = Math.floor(whole / 60) % 60, rest = String(whole % 60).padStart(2, "0");
  return h ? `${h}:${String(m).padStart(2, "0")}:${rest}` : `${m}:${rest}`;
}
function section(title, ...children) {
  const id = title.toLowerCase().replace(/\W+/g, "-");
  contents.append(make("a", { href: `#${id}` }, title));
  parts.append(make("section", { id }, make("h2", {}, title), ...children));
}
function point(event, text) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - box.width - 6)}px`;
  tip.style.top = `${Math.max(4, event.clientY - box.height - 10)}px`;
}
function hide() { tip.hidden = true; }

// Charts ---------------------------------------------------------------------------------------------------------------

function ticks(low, high, many) {
  const raw = (high - low) / many, base = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((k) => k * base).find((k) => k >= raw);
  const found = [];
  for (let x = Math.ceil(low / step) * step; x <= high + step * 1e-6; x += step) found.push(+x.toPrecision(12));
  return found;
}

function powers(low, high) {
  const found = [];
  for (let k = Math.floor(low); k <= high; k++) for (const digit of [1, 2, 5]) found.push(k + Math.log10(digit));
  const inside = found.filter((v) => v >= low && v <= high), whole = inside.filter((v) => Number.isInteger(v));
  const chosen = inside.length > 7 ? whole : inside, every = Math.ceil(chosen.length / 7);
  return chosen.filter((_, i) => i % every === 0);
}

// lines: [{name, points: [[x, y]], thin, dots}]
function chart(title, lines, { x = "step", log = false, aside = "" } = {}) {
  const known = lines.map((line) => ({ ...line, points: line.points.filter(([, v]) => Number.isFinite(v) && (!log || v > 0)) }));
  const all = known.flatMap((line) => line.points), wide = 520, high = 230, left = 52, right = 12, top = 10, bottom = 34;
  const caption = make("figcaption", {}, title, aside ? make("span", { class: "faint" }, ` ${aside}`) : "");
  if (!all.length) return make("figure", {}, caption, make("p", { class: "faint" }, "no values recorded"));
  const value = (v) => (log ? Math.log10(v) : v);
  const extent = (list) => list.reduce(([a, b], v) => [Math.min(a, v), Math.max(b, v)], [Infinity, -Infinity]);
  let [x0, x1] = extent(all.map(([u]) => u)), [y0, y1] = extent(all.map(([, v]) => value(v)));
  if (x0 === x1) { x0 -= 0.5; x1 += 0.5; }
  if (y1 - y0 < 1e-12 * Math.max(1, Math.abs(y0))) { const d = Math.abs(y0) * 0.1 || 1; y0 -= d; y1 += d; } else { const d = (y1 - y0) * 0.05; y0 -= d; y1 += d; }
  const px = (u) => left + ((u - x0) / (x1 - x0)) * (wide - left - right), py = (v) => top + ((y1 - value(v)) / (y1 - y0)) * (high - top - bottom);
  const svg = make("svg:svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": `${title}: ${known.map((line) => `${line.name} ends at ${short(line.points.at(-1)?.[1])}`).join(", ")}` });
  for (const v of log ? powers(y0, y1) : ticks(y0, y1, 4)) {
    const y = top + ((y1 - v) / (y1 - y0)) * (high - top - bottom);
    svg.append(make("svg:line", { x1: left, x2: wide - right, y1: y, y2: y, class: "grid" }), make("svg:text", { x: left - 5, y: y + 4, "text-anchor": "end" }, short(log ? 10 ** v : v)));
  }
  for (const u of ticks(x0, x1, 6).filter((t) => Number.isInteger(t))) svg.append(make("svg:text", { x: px(u), y: high - bottom + 15, "text-anchor": "middle" }, u.toLocaleString("en")));
  svg.append(make("svg:text", { x: (left + wide) / 2, y: high - 4, "text-anchor": "middle" }, x), make("svg:line", { x1: left, x2: wide - right, y1: high - bottom, y2: high - bottom, class: "axis" }));
  known.forEach((line, k) => {
    const path = line.points.map(([u, v], i) => `${i ? "L" : "M"}${px(u).toFixed(1)},${py(v).toFixed(1)}`).join("");
    const style = `stroke:${line.colour ?? COLOURS[k % COLOURS.length]};stroke-width:${line.thin ? 1 : 2};fill:none;opacity:${line.thin ? 0.45 : 1};stroke-linejoin:round`;
    const drawn = make("svg:path", { d: path });
    drawn.style.cssText = style;
    svg.append(drawn);
    if (!line.thin && line.points.length < 40) for (const [u, v] of line.points) { const dot = make("svg:circle", { cx: px(u), cy: py(v), r: 2.6 }); dot.style.fill = line.colour ?? COLOURS[k % COLOURS.length]; svg.append(dot); }
  });
  const hair = make("svg:line", { y1: top, y2: high - bottom, class: "axis", visibility: "hidden" });
  svg.append(hair);
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), u = x0 + (((event.clientX - box.left) / box.width) * wide - left) / (wide - left - right) * (x1 - x0);
    const near = known.filter((line) => line.points.length).map((line) => [line.name, line.points.reduce((a, b) => (Math.abs(b[0] - u) < Math.abs(a[0] - u) ? b : a))]);
    const at = near[0][1][0];
    hair.setAttribute("x1", px(at)); hair.setAttribute("x2", px(at)); hair.setAttribute("visibility", "visible");
    point(event, [`${x} ${at.toLocaleString("en")}`, ...near.map(([name, [, v]]) => `${name} ${short(v)}`)].join("\n"));
  });
  svg.addEventListener("pointerleave", () => { hide(); hair.setAttribute("visibility", "hidden"); });
  const key = known.length > 1 ? make("div", { class: "key" }, ...known.map((line, k) => { const mark = make("i"); mark.style.opacity = line.thin ? 0.45 : 1; mark.style.borderColor = line.colour ?? COLOURS[k % COLOURS.length]; return make("span", {}, mark, line.name); })) : null;
  return make("figure", {}, caption, svg, key);
}

// A colour between the card and one hue.
function shade(share, hue = "var(--c0)") { return `color-mix(in srgb, ${hue} ${Math.round(share * 100)}%, var(--card))`; }

// Rows are layers, columns samples; the logarithm of a value is its colour.
function heatmap(title, names, columns, steps, aside) {
  const rows = names.map((_, i) => columns.map((column) => column[i]));
  const all = rows.flat().filter((v) => v > 0).map(Math.log10).sort((a, b) => a - b), least = all[0], high = all.at(-1);
  const low = all[Math.floor(0.02 * all.length)]; // few layers that hardly move take the shades from all others
  const label = 220, cell = Math.max(4, Math.min(16, 560 / Math.max(1, steps.length))), tall = 15, wide = label + cell * steps.length + 6;
  const svg = make("svg:svg", { viewBox: `0 0 ${wide} ${names.length * tall + 18}`, role: "img", "aria-label": title });
  svg.style.cssText = `max-width:${Math.max(wide * 1.25, 300)}px;min-width:${Math.min(wide, 520)}px`;
  names.forEach((name, r) => {
    const text = make("svg:text", { x: label - 5, y: r * tall + 11, "text-anchor": "end" }, name.length > 36 ? `…${name.slice(-35)}` : name);
    text.append(make("svg:title", {}, name));
    svg.append(text);
    steps.forEach((step, c) => {
      const v = rows[r][c], rect = make("svg:rect", { x: label + c * cell, y: r * tall, width: cell - (cell > 6 ? 1 : 0), height: tall - 1 });
      rect.style.fill = v > 0 ? shade(high > low ? 0.06 + 0.94 * Math.max(0, Math.log10(v) - low) / (high - low) : 0.5) : "transparent";
      rect.addEventListener("pointermove", (event) => point(event, `${name}\nstep ${step.toLocaleString("en")}\n${short(v)}`));
      svg.append(rect);
    });
  });
  svg.addEventListener("pointerleave", hide);
  svg.append(make("svg:text", { x: label, y: names.length * tall + 13 }, `step ${steps[0]}`), make("svg:text", { x: wide - 6, y: names.length * tall + 13, "text-anchor": "end" }, `${steps.at(-1)}`));
  const range = all.length ? `${short(10 ** low)}${least < low ? " or less" : ""} (pale) to ${short(10 ** high)} (full)` : "all are 0";
  return make("figure", {}, make("figcaption", {}, title, make("span", { class: "faint" }, ` ${aside}; ${range}`)), make("div", { class: "scroll" }, svg));
}

function table(rows, head = null) {
  return make("div", { class: "scroll" }, make("table", {}, head && make("tr", {}, ...head.map((name) => make("th", {}, name))), ...rows.map((row) => make("tr", {}, ...row.map((entry, i) => make("td", { class: i && typeof entry === "number" ? "number" : null }, typeof entry === "number" ? short(entry) : entry ?? ""))))));
}

// The parts ------------------------------------------------------------------------------------------------------------

const { history, steps, examples } = data, last = history.at(-1);
document.querySelector("h1").textContent = `Run ${data.name}`;
const best = history.find((row) => row.epoch === data.kept);
document.getElementById("said").textContent = last
  ? `${history.length} of ${data.epochs} epochs, ${last.step.toLocaleString("en")} steps in ${clock(data.seconds)}; epoch ${best.epoch} is the best, and export writes it.`
  : "no epoch has ended yet.";
if (last) {
  const shown = Object.keys(last).filter((name) => !["epoch", "step", "learning_rate"].includes(name));
  parts.append(make("div", { class: "tiles" }, ...shown.map((name) => make("div", { class: "tile" }, make("span", { class: "faint" }, name), make("b", {}, short(best[name])), make("span", { class: "faint" }, [data.before && name in data.before ? `before: ${short(data.before[name])}` : "", best === last ? "" : `last epoch: ${short(last[name])}`].filter(Boolean).join(", "))))));
}

{
  const names = [...new Set(history.flatMap((row) => Object.keys(row)))].filter((name) => !["epoch", "step", "learning_rate"].includes(name) && !name.startsWith("val_"));
  const judged = [...(data.before ? [data.before] : []), ...history, ...data.evaluations].sort((a, b) => a.step - b.step);
  const charts = names.map((name) => chart(name, [
    { name: "training", points: history.filter((row) => name in row).map((row) => [row.step, row[name]]), colour: COLOURS[0] },
    { name: "validation", points: judged.filter((row) => `val_${name}` in row).map((row) => [row.step, row[`val_${name}`]]), colour: COLOURS[1] },
    { name: "each step", points: steps.filter((row) => name in row).map((row) => [row.step, row[name]]), thin: true, colour: COLOURS[0] },
  ].filter((line) => line.points.length)));
  const rates = steps.map((row) => [row.step, row.learning_rate]);
  const speed = [];
  let from = steps[0];
  for (const row of steps.slice(1)) {
    const seconds = row.seconds - from.seconds;
    if (seconds < Math.max(0.05, data.seconds / 80)) continue;
    speed.push([row.step, (row.step - from.step) * row.examples / seconds]);
    from = row;
  }
  section("Curves", make("div", { class: "charts" }, ...charts, chart("learning rate", [{ name: "learning rate", points: rates }]), chart("speed", [{ name: "examples per second", points: speed }], { aside: "examples per second" })));
}

for (const { title, head, rows } of data.tables) section(title, table(rows, head));

function confusion({ classes, counts, right, of }) {
  const most = Math.max(1, ...counts.flat());
  const body = counts.map((row, r) => make("tr", {}, make("th", {}, String(classes[r])), ...row.map((n, c) => {
    const cell = make("td", {}, n ? n.toLocaleString("en") : "");
    cell.style.background = shade(n ? 0.12 + 0.6 * Math.sqrt(n / most) : 0, r === c ? "var(--c2)" : "var(--c1)");
    cell.title = `${n} of class ${classes[r]} are predicted as ${classes[c]}`;
    return cell;
  })));
  return make("div", {}, make("p", {}, `${right.toLocaleString("en")} of ${of.toLocaleString("en")} are right (${short(100 * right / Math.max(1, of))} %). Rows are the true classes, columns the predicted ones.`),
    make("div", { class: "scroll" }, make("table", { class: "heat" }, make("tr", {}, make("th", {}), ...classes.map((name) => make("th", {}, String(name)))), ...body)));
}

function residuals({ pairs, counts, edges, r2 }) {
  const wide = 520, high = 260, left = 52, bottom = 34, all = pairs.flat(), low = Math.min(...all), top = Math.max(...all), span = top - low || 1;
  const px = (v) => left + ((v - low) / span) * (wide - left - 12), py = (v) => 10 + ((top - v) / span) * (high - bottom - 10);
  const svg = make("svg:svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": "predictions over targets" }, make("svg:line", { x1: px(low), y1: py(low), x2: px(top), y2: py(top), class: "axis" }));
  for (const v of ticks(low, low + span, 4)) svg.append(make("svg:text", { x: left - 5, y: py(v) + 4, "text-anchor": "end" }, short(v)), make("svg:text", { x: px(v), y: high - bottom + 15, "text-anchor": "middle" }, short(v)));
  for (const [a, b] of pairs) { const dot = make("svg:circle", { cx: px(a), cy: py(b), r: 2.4 }); dot.style.cssText = "fill:var(--c0);opacity:.55"; svg.append(dot); }
  svg.append(make("svg:text", { x: (left + wide) / 2, y: high - 4, "text-anchor": "middle" }, "target"));
  const bars = make("svg:svg", { viewBox: `0 0 ${wide} ${high}`, role: "img", "aria-label": "histogram of residuals" }), most = Math.max(...counts), w = (wide - left - 12) / counts.length;
  counts.forEach((n, i) => { const h = (n / most) * (high - bottom - 10), bar = make("svg:rect", { x: left + i * w, y: high - bottom - h, width: w - 1, height: h }); bar.style.fill = "var(--c0)"; bar.addEventListener("pointermove", (event) => point(event, `${short(edges[i])} to ${short(edges[i + 1])}\n${n}`)); bars.append(bar); });
  for (const v of ticks(edges[0], edges.at(-1), 5)) bars.append(make("svg:text", { x: left + ((v - edges[0]) / (edges.at(-1) - edges[0])) * (wide - left - 12), y: high - bottom + 15, "text-anchor": "middle" }, short(v)));
  bars.addEventListener("pointerleave", hide);
  return make("div", { class: "charts" }, make("figure", {}, make("figcaption", {}, "prediction over target ", make("span", { class: "faint" }, `R² ${short(r2)}`)), svg), make("figure", {}, make("figcaption", {}, "residuals ", make("span", { class: "faint" }, "prediction minus target")), bars));
}

function example(entry) {
  const judged = [..."overlap" in entry ? [`overlap ${short(entry.overlap)}`] : [], ...entry.loss === null ? [] : [`loss ${short(entry.loss)}`], `example ${entry.number}`];
  const said = make("div", {}, "predicted ", make("b", {}, entry.predicted), `, is ${entry.target}`, make("div", { class: "faint" }, judged.join(", ")));
  if (entry.picture) return make("div", { class: entry.drawn ? `example drawn ${entry.drawn}` : "example" }, make("img", { src: entry.picture, alt: `example ${entry.number}` }), said);
  return make("div", { class: "example rows" }, said, ...entry.row.map(([name, text]) => make("div", { class: "code" }, `${name}: ${text}`)));
}

if (examples?.why) section("Validation examples", make("p", { class: "faint" }, examples.why));
if (examples?.confusion) section("Confusion", confusion(examples.confusion));
if (examples?.residuals) section("Residuals", residuals(examples.residuals));
if (examples?.table) section(examples.table.title, table(examples.table.rows, examples.table.head));
if (examples?.worst) {
  section("Validation examples", make("p", { class: "faint" }, `of the first ${examples.count.toLocaleString("en")}${examples.said ? `; ${examples.said}` : ""}`),
    make("h3", {}, "Worst"), make("div", { class: "examples" }, ...examples.worst.map(example)),
    make("h3", {}, "Best"), make("div", { class: "examples" }, ...examples.best.map(example)));
}

if (data.samples.length) {
  const at = data.samples.map((row) => row.step), norm = (list) => Math.hypot(...list.filter((v) => v !== null));
  const ratios = data.samples.map((row) => { const known = row.update.filter((v) => v !== null).sort((a, b) => a - b); return [row.step, known[known.length >> 1]]; });
  section("Gradients and updates",
    make("div", { class: "charts" },
      chart("gradient norm", [{ name: "all layers", points: data.samples.map((row) => [row.step, norm(row.gradient)]) }], { log: true, aside: "of all layers" }),
      chart("update ratio", [{ name: "median layer", points: ratios }], { log: true, aside: "norm of the update by norm of the weights, median layer; 0.001 is usual" })),
    make("h3", {}, "By layer"),
    make("div", {},
      heatmap("gradient norm", data.layers, data.samples.map((row) => row.gradient), at, "before clipping"),
      heatmap("update ratio", data.layers, data.samples.map((row) => row.update), at, "of weights that are 0: blank")));
}

{
  const size = (entry) => entry.shape.reduce((a, b) => a * b, 1), sum = (list) => list.reduce((a, entry) => a + size(entry), 0).toLocaleString("en");
  const listed = (list, row, head) => make("details", { open: list.length <= 12 }, make("summary", {}, `${sum(list)} parameters in ${list.length} tensors`), table(list.slice(0, 500).map(row), head), list.length > 500 ? make("p", { class: "faint" }, `and ${list.length - 500} more`) : null);
  section("Weights", make("h3", {}, "Trained"), listed(data.trained, (p) => [p.name, p.shape.join(" × ")], ["weight", "shape"]),
    make("h3", {}, "Frozen"), data.frozen.length ? listed(data.frozen, (p) => [p.name, p.shape.join(" × "), p.why], ["weight", "shape", "why"]) : make("p", { class: "faint" }, "nothing"),
    ...(data.remarks.length ? [make("h3", {}, "Notes"), make("ul", {}, ...data.remarks.map((text) => make("li", {}, text)))] : []));
}
section("Memory", table(data.memory.map(([name, n]) => [name, bytes(n)])));
section("Environment", table(data.environment));
section("Command", make("pre", { class: "code" }, data.command));
