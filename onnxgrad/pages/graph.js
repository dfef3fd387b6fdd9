// The page of view_program: data has nodes, tensors and groups that refer to each other by position.
const { nodes, tensors, groups } = data;
const STATES = ["carries", "stops", "refuses", "frozen", "LoRA", "step"];
const SAID = {
  carries: "carries gradient", stops: "stops gradient", refuses: "refuses gradient", frozen: "frozen", LoRA: "LoRA", step: "training step",
};
const canvas = document.getElementById("graph"), panel = document.getElementById("panel"), search = document.getElementById("search");
const found = document.getElementById("found"), pen = canvas.getContext("2d");
const LINE = 16, PAD = 12, HEAD = 26, WIDEST = 220;
const FONT = "600 13px system-ui, sans-serif", SMALL = "11px system-ui, sans-serif";

// What stands where ----------------------------------------------------------------------------------------------------

const members = groups.map(() => []), subgroups = groups.map(() => []), boxOf = new Map();
groups.forEach((group, g) => {
  if (group.parent !== null) subgroups[group.parent].push(g);
  if (group.node !== null) boxOf.set(group.node, g);
});
nodes.forEach((node, i) => { if (node.group !== null && !boxOf.has(i)) members[node.group].push(i); });
const counts = groups.map(() => null);
function count(g) {
  if (counts[g] === null) {
    const all = [...everyNode(g)].filter((i) => nodes[i].kind === "operator");
    counts[g] = { operators: all.length, shares: STATES.map((state) => all.filter((i) => nodes[i].state === state).length) };
  }
  return counts[g];
}
const makers = tensors.map((tensor) => tensor.maker), readers = tensors.map(() => []);
nodes.forEach((node, i) => { for (const t of node.operands) if (t !== null) readers[t].push(i); });

// An end of a line is "n3" (node), "g2" (group), "i7" or "o7" (where tensor 7 enters or leaves the group around).
function pathOf(i) {
  const path = [boxOf.has(i) ? `g${boxOf.get(i)}` : `n${i}`];
  for (let g = boxOf.has(i) ? groups[boxOf.get(i)].parent : nodes[i].group; g !== null; g = groups[g].parent) path.unshift(`g${g}`);
  return path;
}
const paths = nodes.map((_, i) => pathOf(i));
const folded = new Set(nodes.length > 60 ? groups.keys() : []);

function flows() {
  const levels = new Map();
  const add = (level, value, source, target) => {
    if (!levels.has(level)) levels.set(level, new Map());
    const known = levels.get(level), key = `${value}/${source}`;
    if (!known.has(key)) known.set(key, { value, source, targets: new Set() });
    known.get(key).targets.add(target);
  };
  const cut = (path) => {
    const k = path.findIndex((end) => end[0] === "g" && folded.has(+end.slice(1)));
    return k < 0 ? path : path.slice(0, k + 1);
  };
  tensors.forEach((_, value) => {
    if (makers[value] === null) return;
    const from = cut(paths[makers[value]]);
    for (const reader of readers[value]) {
      const to = cut(paths[reader]);
      let k = 0;
      while (k < from.length && k < to.length && from[k] === to[k]) k++;
      if (k === from.length || k === to.length) continue;
      add(k ? from[k - 1] : "", value, from[k], to[k]);
      for (let j = k + 1; j < from.length; j++) add(from[j - 1], value, from[j], `o${value}`);
      for (let j = k + 1; j < to.length; j++) add(to[j - 1], value, `i${value}`, to[j]);
    }
  });
  return levels;
}

// Layout ---------------------------------------------------------------------------------------------------------------

function textWidth(text, font) { pen.font = font; return pen.measureText(text).width; }
function clipped(text, font, width) {
  if (textWidth(text, font) <= width) return text;
  let low = 0, high = text.length;
  while (low < high) { const middle = (low + high + 1) >> 1; if (textWidth(`${text.slice(0, middle)}…`, font) <= width) low = middle; else high = middle - 1; }
  return `${text.slice(0, low)}…`;
}
const labels = new Map();
function labelOf(end) {
  if (labels.has(end)) return labels.get(end);
  let title, line;
  if (end[0] === "n") {
    const node = nodes[+end.slice(1)], shown = node.kind === "operator" ? node.results.find((t) => t !== null) : (node.results[0] ?? node.operands[0]);
    title = node.title;
    line = shown === undefined || shown === null ? "" : tensors[shown].type;
  } else {
    const g = +end.slice(1), { operators } = count(g);
    title = groups[g].kind === "part" ? `block ${groups[g].title}` : groups[g].title;
    line = `${operators.toLocaleString("en")} operators`;
  }
  const w = Math.min(WIDEST, Math.max(70, textWidth(title, FONT), textWidth(line, SMALL)) + 2 * PAD);
  labels.set(end, { title: clipped(title, FONT, w - 2 * PAD), line: clipped(line, SMALL, w - 2 * PAD), w, h: 2 * LINE + (end[0] === "g" ? 14 : 10) });
  return labels.get(end);
}

let boxes = [], lines = [], places = new Map();

function layOut(group, levels) {
  const name = group === null ? "" : `g${group}`;
  const inside = group === null
    ? nodes.flatMap((node, i) => (node.group === null && !boxOf.has(i) ? [`n${i}`] : []))
    : members[group].map((i) => `n${i}`);
  const children = (group === null ? groups.flatMap((g, k) => (g.parent === null ? [k] : [])) : subgroups[group]).map((g) => `g${g}`);
  const known = [...(levels.get(name) ?? new Map()).values()];
  const inPorts = [...new Set(known.filter((flow) => flow.source[0] === "i").map((flow) => flow.source))];
  const outPorts = [...new Set(known.flatMap((flow) => [...flow.targets]).filter((end) => end[0] === "o"))];
  const ends = [...inPorts, ...inside, ...children, ...outPorts], index = new Map(ends.map((end, i) => [end, i]));
  const interiors = new Map();
  const items = ends.map((end) => {
    if (end[0] === "i" || end[0] === "o") return { w: 6, h: 0 };
    if (end[0] === "g" && !folded.has(+end.slice(1))) {
      const interior = layOut(+end.slice(1), levels);
      interiors.set(end, interior);
      return { w: interior.w, h: interior.h };
    }
    return labelOf(end);
  });
  const position = (end) => index.get(end);
  const { w, h, at, lines: drawn } = arrange(
    items, known.map(({ value, source, targets }) => ({ value, source: position(source), targets: [...targets].map(position) })),
    inPorts.map(position), outPorts.map(position),
  );
  const result = { boxes: [], lines: [], ports: new Map(), w, h };
  let dx = 0, dy = 0;
  if (group !== null) {
    const head = labelOf(name).w + 30;
    result.w = Math.max(w, head) + 2 * PAD;
    result.h = h + HEAD + 2 * PAD;
    dx = PAD + Math.max(0, (head - w) / 2);
    dy = HEAD + PAD;
    result.boxes.push({ end: name, x: 0, y: 0, w: result.w, h: result.h, open: true });
  }
  const port = (end, value, out) => {
    const i = index.get(end), { x, y } = at[i], ports = interiors.get(end)?.ports.get(`${out ? "o" : "i"}${value}`);
    if (end[0] === "i" || end[0] === "o") return { x, y };
    return { x: ports === undefined ? x : x - items[i].w / 2 + ports, y: y + (out ? 1 : -1) * items[i].h / 2 };
  };
  ends.forEach((end, i) => {
    const { x, y } = at[i];
    if (end[0] === "i" || end[0] === "o") { result.ports.set(end, x + dx); return; }
    const interior = interiors.get(end), left = x - items[i].w / 2 + dx, above = y - items[i].h / 2 + dy;
    if (!interior) { result.boxes.push({ end, x: left, y: above, w: items[i].w, h: items[i].h, open: false }); return; }
    for (const box of interior.boxes) result.boxes.push({ ...box, x: box.x + left, y: box.y + above });
    for (const line of interior.lines) result.lines.push({ ...line, points: line.points.map((p) => ({ x: p.x + left, y: p.y + above })) });
  });
  for (const { value, source, target, points } of drawn) {
    const from = source === null ? [] : [port(ends[source], value, true)];
    const whole = [...from, ...points, port(ends[target], value, false)].map((p) => ({ x: p.x + dx, y: p.y + dy }));
    if (source !== null && ends[source][0] === "i") whole.unshift({ x: whole[0].x, y: 0 });
    if (ends[target][0] === "o") whole.push({ x: whole.at(-1).x, y: result.h });
    result.lines.push({ value, points: whole });
  }
  return result;
}

function rebuild() {
  const all = layOut(null, flows());
  boxes = all.boxes;
  places = new Map(boxes.map((box) => [box.end, box]));
  lines = all.lines.map((line) => {
    const xs = line.points.map((p) => p.x), ys = line.points.map((p) => p.y);
    return { ...line, left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) };
  });
  size = { w: all.w, h: all.h };
  draw();
}

// Drawing --------------------------------------------------------------------------------------------------------------

let size = { w: 1, h: 1 }, camera = { x: 0, y: 0, zoom: 1 }, selected = null, matches = new Set(), only = null, colours = {}, asked = false;

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of [...STATES, "paper", "card", "line", "ink", "faint", "accent", "mark"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
}

function colourOf(end) {
  if (end[0] === "g") {
    const g = +end.slice(1);
    const { shares } = count(g), refuses = STATES.indexOf("refuses");
    return groups[g].node !== null ? colours[nodes[groups[g].node].state] : colours[STATES[shares[refuses] ? refuses : shares.indexOf(Math.max(...shares))]];
  }
  const node = nodes[+end.slice(1)];
  return node.kind === "operator" ? colours[node.state] : colours.ink;
}

function nodeOf(end) {
  if (end[0] === "n") return +end.slice(1);
  return groups[+end.slice(1)].node;
}

function isFaint(end) {
  if (only === null) return false;
  const node = nodeOf(end);
  if (node !== null && nodes[node].state === only) return false;
  return end[0] === "n" || ![...everyNode(+end.slice(1))].some((i) => nodes[i].state === only);
}

function* everyNode(g) {
  yield* members[g];
  for (const inner of subgroups[g]) { if (groups[inner].node !== null) yield groups[inner].node; yield* everyNode(inner); }
}

function draw() {
  if (!asked) { asked = true; requestAnimationFrame(paint); }
}

function paint() {
  asked = false;
  const ratio = window.devicePixelRatio || 1, { clientWidth: wide, clientHeight: high } = canvas;
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
  }
  const { zoom } = camera;
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.fillStyle = colours.paper;
  pen.fillRect(0, 0, canvas.width, canvas.height);
  pen.setTransform(ratio * zoom, 0, 0, ratio * zoom, ratio * camera.x, ratio * camera.y);
  const left = -camera.x / zoom, top = -camera.y / zoom, right = left + wide / zoom, bottom = top + high / zoom;
  const seen = (box) => box.x < right && box.x + box.w > left && box.y < bottom && box.y + box.h > top;
  const shown = boxes.filter(seen);
  for (const box of shown) if (box.open) paintOpen(box, zoom);
  const own = selected === null ? null : new Set([...(nodes[selected]?.operands ?? []), ...(nodes[selected]?.results ?? [])]);
  pen.lineWidth = Math.max(1, 0.6 / zoom);
  for (const marked of [false, true]) {
    pen.strokeStyle = marked ? colours.accent : colours.faint;
    pen.globalAlpha = marked ? 1 : 0.55;
    if (marked) pen.lineWidth *= 2;
    pen.beginPath();
    for (const line of lines) {
      const isOwn = own !== null && own.has(line.value);
      if (isOwn === marked && line.left < right && line.right > left && line.top < bottom && line.bottom > top) trace(line.points);
    }
    pen.stroke();
  }
  pen.globalAlpha = 1;
  for (const box of shown) if (!box.open) paintBox(box, zoom);
}

function trace(points) {
  pen.moveTo(points[0].x, points[0].y);
  for (let i = 1; i < points.length; i++) {
    const a = points[i - 1], b = points[i], middle = (a.y + b.y) / 2;
    pen.bezierCurveTo(a.x, middle, b.x, middle, b.x, b.y);
  }
}

function rounded(box, radius) { pen.beginPath(); pen.roundRect(box.x, box.y, box.w, box.h, radius); }

function paintOpen(box, zoom) {
  rounded(box, 10);
  pen.fillStyle = colours.card;
  pen.globalAlpha = isFaint(box.end) ? 0.3 : 0.75;
  pen.fill();
  pen.strokeStyle = isSelected(box.end) ? colours.accent : colours.line;
  pen.lineWidth = Math.max(1, 1 / zoom);
  pen.stroke();
  pen.globalAlpha = 1;
  if (zoom > 0.35) {
    pen.fillStyle = colours.faint;
    pen.font = FONT;
    pen.fillText(`▾ ${labelOf(box.end).title}`, box.x + PAD, box.y + 18);
  }
}

function isSelected(end) { return selected !== null && nodeOf(end) === selected; }

function paintBox(box, zoom) {
  const { end } = box, group = end[0] === "g", node = nodeOf(end), operator = node === null || nodes[node].kind === "operator";
  const label = labelOf(end), colour = colourOf(end), unreached = node !== null && nodes[node].unreached;
  pen.globalAlpha = isFaint(end) ? 0.2 : 1;
  rounded(box, operator ? 7 : box.h / 2);
  pen.fillStyle = hasMatch(end) ? colours.mark : zoom > 0.28 ? colours.card : colour;
  pen.fill();
  pen.strokeStyle = isSelected(end) ? colours.accent : colour;
  pen.lineWidth = isSelected(end) ? 3.5 : Math.max(1.4, 0.8 / zoom);
  pen.setLineDash(unreached ? [5, 4] : []);
  pen.stroke();
  pen.setLineDash([]);
  if (group) { pen.beginPath(); pen.roundRect(box.x + 3, box.y + 3, box.w - 6, box.h - 6, 5); pen.lineWidth = 1; pen.stroke(); paintShares(box, count(+end.slice(1)).shares); }
  else if (operator) { pen.fillStyle = colour; pen.fillRect(box.x + 1, box.y + 7, 4, box.h - 14); }
  if (zoom > 0.28) {
    pen.fillStyle = colours.ink;
    pen.font = FONT;
    pen.fillText(label.title, box.x + PAD, box.y + 18);
    if (zoom > 0.45) { pen.fillStyle = colours.faint; pen.font = SMALL; pen.fillText(label.line, box.x + PAD, box.y + 34); }
  }
  pen.globalAlpha = 1;
}

function paintShares(box, shares) {
  const all = shares.reduce((a, b) => a + b, 0), wide = box.w - 2 * PAD;
  let x = box.x + PAD;
  shares.forEach((n, k) => {
    pen.fillStyle = colours[STATES[k]];
    if (n) pen.fillRect(x, box.y + box.h - 7, (n / all) * wide, 2.5);
    x += (n / Math.max(1, all)) * wide;
  });
}

function hasMatch(end) {
  if (!matches.size) return false;
  if (end[0] === "n") return matches.has(+end.slice(1));
  for (const i of everyNode(+end.slice(1))) if (matches.has(i)) return true;
  return matches.has(nodeOf(end));
}

// Moving about ---------------------------------------------------------------------------------------------------------

function fit(smallest = 0.01) {
  const { clientWidth: wide, clientHeight: high } = canvas;
  const zoom = Math.min(1, Math.max(Math.min((wide - 30) / size.w, (high - 30) / size.h), smallest));
  camera = { zoom, x: (wide - size.w * zoom) / 2, y: size.h * zoom > high ? 15 : (high - size.h * zoom) / 2 };
  draw();
}

function zoomBy(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
  const zoom = Math.min(4, Math.max(0.01, camera.zoom * factor)), scale = zoom / camera.zoom;
  camera = { zoom, x: x - (x - camera.x) * scale, y: y - (y - camera.y) * scale };
  draw();
}

function show(i) {
  let changed = false;
  for (const end of paths[i].slice(0, -1)) changed = folded.delete(+end.slice(1)) || changed;
  if (changed) rebuild();
  select(i);
  const box = places.get(paths[i].at(-1)), zoom = Math.max(camera.zoom, 0.7);
  camera = { zoom, x: canvas.clientWidth / 2 - (box.x + box.w / 2) * zoom, y: canvas.clientHeight / 2 - (box.y + Math.min(box.h, 60) / 2) * zoom };
  draw();
}

function turn(g) {
  const name = `g${g}`, old = places.get(name), x = old.x * camera.zoom + camera.x, y = old.y * camera.zoom + camera.y;
  if (!folded.delete(g)) folded.add(g);
  rebuild();
  const now = places.get(name);
  camera = { ...camera, x: x - now.x * camera.zoom, y: y - now.y * camera.zoom };
}

function foldAll(fold) {
  folded.clear();
  if (fold) for (const g of groups.keys()) folded.add(g);
  rebuild();
  fit(fold ? 0.6 : 0.05);
}

function boxAt(x, y) {
  const px = (x - camera.x) / camera.zoom, py = (y - camera.y) / camera.zoom;
  const hit = boxes.filter((b) => px >= b.x && px <= b.x + b.w && py >= b.y && py <= b.y + (b.open ? HEAD : b.h));
  return hit.at(-1) ?? null;
}

function press(x, y) {
  const box = boxAt(x, y);
  if (box === null) { select(null); return; }
  const node = nodeOf(box.end);
  if (node !== null) select(node);
  if (box.end[0] === "g") turn(+box.end.slice(1));
}

const pointers = new Map();
let moved = 0;
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
  moved = 0;
});
canvas.addEventListener("pointermove", (event) => {
  const before = pointers.get(event.pointerId);
  if (!before) return;
  const now = { x: event.offsetX, y: event.offsetY }, others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, p]) => p);
  moved += Math.hypot(now.x - before.x, now.y - before.y);
  if (others.length) {
    const [other] = others, far = (p) => Math.max(1, Math.hypot(p.x - other.x, p.y - other.y));
    zoomBy(far(now) / far(before), (now.x + other.x) / 2, (now.y + other.y) / 2);
  } else if (moved > 4) camera = { ...camera, x: camera.x + now.x - before.x, y: camera.y + now.y - before.y };
  pointers.set(event.pointerId, now);
  draw();
});
canvas.addEventListener("pointerup", (event) => {
  if (pointers.delete(event.pointerId) && moved <= 4 && !pointers.size) press(event.offsetX, event.offsetY);
});
canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (event.shiftKey) { camera = { ...camera, x: camera.x - event.deltaY }; draw(); return; }
  zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)), event.offsetX, event.offsetY);
}, { passive: false });
document.addEventListener("keydown", (event) => {
  if (event.target === search) {
    if (event.key === "Escape") { search.value = ""; look(); canvas.focus(); }
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); search.focus(); }
  const node = selected === null ? null : nodes[selected];
  const towards = { ArrowUp: node?.operands.map((t) => t !== null && makers[t]), ArrowDown: node?.results.flatMap((t) => (t === null ? [] : readers[t])) };
  if (towards[event.key]) {
    const next = towards[event.key].find((i) => typeof i === "number");
    if (next !== undefined) show(next);
  } else if (event.key === "+" || event.key === "=") zoomBy(1.3);
  else if (event.key === "-") zoomBy(1 / 1.3);
  else if (event.key === "f") fit();
  else if (event.key === "Escape") select(null);
  else return;
  event.preventDefault();
});

// Search ---------------------------------------------------------------------------------------------------------------

let hits = [], hit = -1;

function textOf(i) {
  const node = nodes[i], names = [...node.operands, ...node.results].filter((t) => t !== null).map((t) => `${tensors[t].name} ${tensors[t].type}`);
  return [node.title, node.name, node.domain, node.state, ...names].join(" ").toLowerCase();
}
const texts = nodes.map((_, i) => textOf(i));

function look() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  hits = words.length ? nodes.flatMap((_, i) => (words.every((word) => texts[i].includes(word)) ? [i] : [])) : [];
  matches = new Set(hits);
  hit = -1;
  const entries = hits.slice(0, 60).map((i) => make("li", {}, make("button", { onclick: () => { show(i); found.hidden = true; } }, `${nodes[i].title} `, make("span", { class: "faint" }, nodes[i].name || nameOf(i)))));
  const rest = hits.length > 60 ? `and ${hits.length - 60} more` : hits.length ? "" : "no match";
  found.replaceChildren(...entries, ...(rest ? [make("li", { class: "faint" }, rest)] : []));
  found.hidden = !words.length;
  draw();
}

function step(by) {
  if (!hits.length) return;
  hit = (hit + by + hits.length) % hits.length;
  show(hits[hit]);
}

function nameOf(i) {
  const t = nodes[i].results.find((v) => v !== null) ?? nodes[i].operands[0];
  return t === undefined || t === null ? "" : tensors[t].name;
}
search.addEventListener("input", look);
search.addEventListener("focus", () => { found.hidden = !search.value; });
canvas.addEventListener("pointerdown", () => { found.hidden = true; });

// The panel ------------------------------------------------------------------------------------------------------------

function select(i) {
  selected = i;
  panel.hidden = i === null;
  if (i !== null) describe(nodes[i], i);
  draw();
}

function describe(node, i) {
  const operator = node.kind === "operator";
  const parts = [
    make("button", { class: "close", "aria-label": "Close", onclick: () => select(null) }, "✕"),
    make("h2", {}, node.domain ? `${node.domain}:${node.title}` : node.title),
  ];
  if (node.name) parts.push(make("div", { class: "code faint" }, node.name));
  if (operator) {
    const badge = make("span", { class: "badge" }, SAID[node.state]);
    badge.style.color = colours[node.state];
    const said = [node.reason, node.unreached ? "no gradient reaches it" : "", node.advice].filter(Boolean).join(". ");
    parts.push(make("p", {}, badge, said ? ` ${said}` : ""));
  } else parts.push(make("p", { class: "faint" }, node.kind));
  if (node.attributes?.length) {
    parts.push(make("h3", {}, "Attributes"), make("table", {}, ...node.attributes.map(([name, text]) => make("tr", {}, make("th", {}, name), make("td", { class: "code" }, text)))));
  }
  for (const [title, list, way] of [["Inputs", node.operands, true], ["Outputs", node.results, false]]) {
    const known = list.filter((t) => t !== null);
    if (known.length) parts.push(make("h3", {}, title), ...known.map((t) => tensorText(t, way, i)));
  }
  panel.replaceChildren(...parts);
  panel.scrollTop = 0;
}

function tensorText(t, operand, i) {
  const tensor = tensors[t], goals = operand ? [makers[t]].filter((m) => m !== null && m !== i) : readers[t];
  const links = goals.slice(0, 12).map((goal) => make("button", { onclick: () => show(goal) }, `${operand ? "↑" : "↓"} ${nodes[goal].title}`));
  const element = make(
    "div", { class: "tensor" }, make("div", { class: "code" }, tensor.name),
    make("div", { class: "faint" }, `${tensor.type}${tensor.kind === "result" ? "" : `, ${tensor.kind}`}`), ...links,
  );
  if (goals.length > 12) element.append(` and ${goals.length - 12} more`);
  if (tensor.note) element.append(make("div", { class: "faint" }, tensor.note));
  const { values } = tensor;
  if (values) {
    const dots = values.size > values.first.length ? ", …" : "";
    if (values.range) element.append(make("div", {}, `${values.range[0]} to ${values.range[1]}, mean ${values.range[2]}, deviation ${values.range[3]}`));
    if (values.not_finite) element.append(make("div", {}, `${values.not_finite} elements are not finite`));
    element.append(make("div", { class: "code faint" }, `[${values.shape.join(", ")}]: ${values.first.join(", ")}${dots}`));
    if (values.histogram?.length) element.append(histogram(values.histogram));
  }
  return element;
}

function histogram(bars) {
  const most = Math.max(...bars);
  return make("svg:svg", { viewBox: `0 0 ${bars.length * 10} 34`, preserveAspectRatio: "none", role: "img", "aria-label": "histogram" }, ...bars.map((n, k) => {
    const h = n ? Math.max(1, (n / most) * 34) : 0;
    return make("svg:rect", { x: k * 10 + 0.5, y: 34 - h, width: 9, height: h });
  }));
}

// Start ----------------------------------------------------------------------------------------------------------------

document.querySelector("h1").textContent = data.name;
document.querySelector("h1").title = data.name;
document.getElementById("buttons").append(
  make("button", { id: "fit", title: "Show all (f)", onclick: () => fit() }, "Fit"),
  ...(groups.length ? [
    make("button", { id: "fold", title: "Fold repeated blocks and bodies", onclick: () => foldAll(true) }, "Fold"),
    make("button", { id: "unfold", title: "Unfold everything", onclick: () => foldAll(false) }, "Unfold"),
  ] : []),
);
const tally = Object.fromEntries(STATES.map((state) => [state, nodes.filter((node) => node.state === state).length]));
const legend = document.getElementById("legend");
for (const state of STATES.filter((name) => tally[name])) {
  const swatch = make("span", { class: "swatch" });
  swatch.style.background = `var(--${state})`;
  legend.append(make("button", {
    "data-state": state, "aria-pressed": "false", title: "Show these only",
    onclick: (event) => {
      only = only === state ? null : state;
      for (const button of legend.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button === event.currentTarget && only !== null));
      draw();
    },
  }, swatch, `${SAID[state]} ${tally[state].toLocaleString("en")}`));
}
if (nodes.some((node) => node.unreached)) legend.append(make("span", { class: "faint" }, "dashed: no gradient reaches it"));
legend.append(make("span", { class: "faint" }, data.said.join(" · ")));
readColours();
rebuild();
fit(0.6);
new ResizeObserver(draw).observe(canvas);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); if (selected !== null) describe(nodes[selected], selected); });
// For tests and for the console: where something is on the canvas, and what is selected.
window.graph = {
  where: (end) => { const box = places.get(end); return box && { x: box.x * camera.zoom + camera.x + Math.min(box.w * camera.zoom / 2, 30), y: (box.y + 13) * camera.zoom + camera.y }; },
  state: () => ({ selected, folded: [...folded], camera, boxes: boxes.length, lines: lines.length, hits }),
  paint,
  boxes: () => boxes,
};
