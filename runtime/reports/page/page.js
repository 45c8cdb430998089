"use strict";
// The page of a compiled program: shows what runtime/reports/page.py gathers.

const DATA = JSON.parse(document.getElementById("data").textContent);
const COLOURS = { primal: "#9ecae1", adjoint: "#fdbe85", recompute: "#a1d99b", update: "#bcbddc" };
const ROLES = { primal: "forward", adjoint: "backward", recompute: "recomputed", update: "update" };
const MODES = { ops: "every op", line: "fold by source line", function: "fold by function" };
const MANY = 150; // nodes from which a graph is shown folded at first
const $ = (id) => document.getElementById(id);

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function drawn(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function sized(count, unit) {
  for (const [factor, prefix] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (count >= factor) return `${(count / factor).toPrecision(3)} ${prefix}${unit.length > 4 ? " " : ""}${unit}`;
  return `${Number(count.toPrecision(3))} ${unit}`;
}

// -- tabs

const TABS = { graph: "Graph", kernels: "Kernels", steps: "Time", memory: "Memory", saved: "Saved", text: "Traces and passes" };
function show(tab) {
  for (const name of Object.keys(TABS)) {
    $(name).classList.toggle("shown", name === tab);
    $(`tab-${name}`).setAttribute("aria-selected", String(name === tab));
  }
  if (tab === "graph") { graph.cy.resize(); graph.refit(); }
}

// -- graph

class GraphView {
  constructor() {
    this.cy = cytoscape({
      container: $("canvas"), minZoom: 0.02, maxZoom: 4, boxSelectionEnabled: false, autoungrabify: true,
      style: [
        { selector: "node", style: {
          shape: "round-rectangle", label: "data(label)", "background-color": "data(colour)", "text-valign": "center", "font-size": 11,
          width: "data(width)", height: "data(height)", "text-wrap": "wrap", "text-max-width": 260, "border-width": 1, "border-color": "#8793a1" } },
        { selector: "node[shape = 'ellipse']", style: { shape: "ellipse", "background-color": "#ffffff" } },
        { selector: "node[shape = 'octagon']", style: { shape: "octagon", "background-color": "#fff3b0" } },
        { selector: "node[?folded]", style: { "border-width": 2.5, "border-color": "#404a56" } },
        { selector: "node[?saved]", style: { "border-color": "#c0392b", "border-width": 2.5 } },
        { selector: "node:parent", style: {
          "text-valign": "top", "background-color": "#f4f6f8", "background-opacity": 1, padding: 10, "border-style": "dashed" } },
        { selector: "edge", style: {
          width: 1.2, "curve-style": "bezier", "target-arrow-shape": "triangle", "arrow-scale": 0.7, "line-color": "#a3adb8", "target-arrow-color": "#a3adb8" } },
        { selector: "edge[?saved]", style: { "line-color": "#c0392b", "target-arrow-color": "#c0392b", width: 1.8 } },
        { selector: ".found", style: { "border-width": 4, "border-color": "#d69e2e" } },
        { selector: ":selected", style: { "border-width": 4, "border-color": "#2b6cb0" } },
      ],
    });
    this.cy.on("tap", "node", (event) => this.describe(event.target.data()));
    this.cy.on("dbltap", "node", (event) => this.toggle(event.target.data()));
    for (const name of Object.keys(DATA.graphs)) $("stage").append(element("option", { value: name }, name));
    for (const [name, text] of Object.entries(MODES)) $("mode").append(element("option", { value: name }, text));
    $("stage").addEventListener("change", () => this.open($("stage").value));
    $("mode").addEventListener("change", () => { this.mode = $("mode").value; this.opened.clear(); this.draw(); });
    $("search").addEventListener("input", () => this.search($("search").value));
    $("search").addEventListener("keydown", (event) => { if (event.key === "Enter") this.next(); });
    $("unfold").addEventListener("click", () => { this.unfoldAll(); this.draw(); });
    $("fold").addEventListener("click", () => { this.opened.clear(); this.draw(); });
    $("fit").addEventListener("click", () => this.cy.fit(undefined, 20));
    this.open(Object.keys(DATA.graphs)[0]);
  }

  open(stage) {
    this.graph = DATA.graphs[stage];
    this.opened = new Set();
    const { nodes } = this.graph;
    this.top = nodes.map((node) => { while (node.parent !== null) node = nodes[node.parent]; return node; });
    for (this.mode of ["ops", "line", "function"]) if (new Set(nodes.map((node) => this.standIn(node))).size <= MANY) break;
    if (this.mode === "ops" && nodes.length <= MANY) for (const node of nodes) if (node.kind === "loop") this.opened.add(node.id);
    $("mode").value = this.mode;
    $("stage").value = stage;
    this.draw();
    this.welcome();
  }

  unfoldAll() {
    for (const node of this.graph.nodes) if (node.kind === "loop" || node.kind === "kernel") this.opened.add(node.id);
    if (this.mode !== "ops") for (const node of this.graph.nodes) if (this.group(node)) this.opened.add(this.group(node));
  }

  // key of the group of a node that is in no box; null for one that stands alone
  group(node) {
    const line = this.top[node.id].line;
    if (this.mode === "ops" || line === null) return null;
    const half = this.top[node.id].role === "primal" ? "" : ` ${ROLES[this.top[node.id].role] || ""}`;
    return (this.mode === "line" ? line : `${line.slice(0, line.lastIndexOf(":"))} ${this.graph.lines[line].split("\n")[0]}`) + half;
  }

  // what stands for a node: the outermost of its boxes that is folded, or itself
  standIn(node) {
    const group = this.group(node);
    if (group !== null && !this.opened.has(group)) return `g:${group}`;
    let found = node;
    for (let at = node; at.parent !== null; at = this.graph.nodes[at.parent]) if (!this.opened.has(at.parent)) found = this.graph.nodes[at.parent];
    return found.id;
  }

  elements() {
    const { nodes } = this.graph, shown = new Map(), edges = new Map();
    for (const node of nodes) {
      const id = this.standIn(node), group = this.group(node);
      if (typeof id === "string") {
        const entry = shown.get(id) || { id, count: 0, roles: new Set(), members: [], saved: false, bytes: 0, operations: 0 };
        entry.count += 1; entry.roles.add(node.role); entry.members.push(node); entry.saved = entry.saved || node.saved;
        shown.set(id, entry);
      } else if (id === node.id) {
        const parent = node.parent !== null ? `n${node.parent}` : group !== null ? `g:${group}` : undefined;
        if (node.parent === null && group !== null && !shown.has(parent)) shown.set(parent, { id: parent, box: true, label: group });
        shown.set(id, { node, id: `n${id}`, parent });
      }
    }
    for (const node of nodes) {
      const target = this.standIn(node);
      const isBox = typeof target === "number" && this.opened.has(target) && nodes.some((inner) => inner.parent === target);
      if (isBox) continue;
      for (const operand of node.operands) {
        let source = this.standIn(nodes[operand]);
        if (source === target) continue;
        const saved = nodes[operand].saved && node.role !== "primal" && node.role !== "result";
        const key = `${source}>${target}`;
        edges.set(key, { source: typeof source === "number" ? `n${source}` : source, target: typeof target === "number" ? `n${target}` : target,
          saved: saved || (edges.get(key) || {}).saved });
      }
    }
    return { shown, edges };
  }

  draw() {
    const { shown, edges } = this.elements(), elements = [], boxes = new Set(), made = new Set();
    for (const entry of shown.values()) if (entry.parent) boxes.add(entry.parent);
    for (const entry of shown.values()) { elements.push({ data: this.nodeData(entry, boxes) }); made.add(entry.id); }
    for (const [key, edge] of edges)
      if (made.has(edge.source) && made.has(edge.target)) elements.push({ data: { id: `e:${key}`, ...edge } });
    const positions = this.layout(elements, boxes);
    this.cy.startBatch();
    this.cy.elements().remove();
    this.cy.add(elements.map((each) => positions.has(each.data.id) ? { ...each, position: positions.get(each.data.id) } : each));
    this.cy.endBatch();
    this.refit();
    this.search($("search").value, false);
  }

  refit() {
    this.cy.fit(undefined, 20);
    if (this.cy.zoom() > 1.3) { this.cy.zoom(1.3); this.cy.center(); }
  }

  nodeData(entry, boxes) {
    let label, colour = "#ffffff", shape = "", folded = false, saved = false;
    if (entry.node) {
      const { node } = entry;
      label = `${node.op}\n${node.type.length > 44 ? node.type.slice(0, 44) + "..." : node.type}`;
      if (node.loop) label = `${node.loop}: ${label}`;
      colour = COLOURS[node.role] || colour;
      shape = node.kind === "parameter" ? "ellipse" : node.kind === "result" ? "octagon" : "";
      folded = (node.kind === "loop" || node.kind === "kernel") && !boxes.has(entry.id);
      if (boxes.has(entry.id)) label = label.split("\n")[0];
      saved = node.saved;
    } else if (entry.box) label = entry.label;
    else {
      const name = entry.id.slice(2), plain = name.replace(/ (backward|update|forward, recomputed)$/, "");
      const source = (this.graph.lines[plain] || "\n").split("\n")[1].trim();
      label = `${name.split("/").pop()}\n${source.length > 60 ? source.slice(0, 60) + "..." : source}\n${entry.count} op${entry.count > 1 ? "s" : ""}`;
      colour = COLOURS[[...entry.roles][0]] || colour; folded = true; saved = entry.saved;
    }
    const rows = label.split("\n");
    const roles = entry.node ? [entry.node.role] : entry.roles ? [...entry.roles] : [];
    return { id: entry.id, parent: entry.parent, forward: roles.every((role) => role === "primal"), half: roles.includes("adjoint") || roles.includes("recompute"), label, colour, shape, folded, saved, key: entry.node ? entry.node.id : entry.id,
      width: Math.min(270, 18 + 6.3 * Math.max(...rows.map((row) => row.length))), height: 12 + 14 * rows.length };
  }

  // dagre places the nodes; boxes are drawn around theirs. Edges that span much of a graph take it long, and bend all others: those from the
  // forward to the backward half, which stand side by side so, and those of parameters but for the first
  layout(elements, boxes) {
    const by = new Map(elements.map(({ data }) => [data.id, data])), far = elements.length > 300;
    const placed = new dagre.graphlib.Graph({ compound: true, multigraph: false });
    const many = elements.length > 600;
    placed.setGraph({ rankdir: "TB", nodesep: 14, ranksep: 26, ranker: elements.length > 150 ? "longest-path" : "network-simplex" });
    placed.setDefaultEdgeLabel(() => ({}));
    for (const { data } of elements) if (!data.source) placed.setNode(data.id, { width: data.width, height: data.height });
    if (!many) for (const { data } of elements) if (!data.source && data.parent) placed.setParent(data.id, data.parent);
    const first = new Map(), last = new Map(); // an edge of a box is one of a node in it: dagre has no edges of boxes
    for (const { data } of elements) {
      if (data.source || boxes.has(data.id)) continue;
      for (let at = data.parent; at; at = (by.get(at) || {}).parent) { if (!first.has(at)) first.set(at, data.id); last.set(at, data.id); }
    }
    const order = new Map(), read = new Set();
    elements.forEach(({ data }, index) => order.set(data.id, index));
    for (const { data } of elements) {
      if (!data.source || order.get(data.source) > order.get(data.target)) continue;
      const start = by.get(data.source), end = by.get(data.target);
      if (far && start.forward && end.half) continue;
      if (far && start.shape === "ellipse" && (read.has(data.source) || !read.add(data.source))) continue;
      const source = boxes.has(data.source) ? last.get(data.source) : data.source, target = boxes.has(data.target) ? first.get(data.target) : data.target;
      if (source && target && source !== target) placed.setEdge(source, target);
    }
    dagre.layout(placed);
    const positions = new Map();
    for (const id of placed.nodes()) if (!boxes.has(id)) { const { x, y } = placed.node(id); positions.set(id, { x, y }); }
    return positions;
  }

  toggle(data) {
    const key = typeof data.key === "number" ? data.key : data.id.startsWith("g:") ? data.id.slice(2) : null;
    if (key === null) return;
    if (typeof key === "number" && !["loop", "kernel"].includes(this.graph.nodes[key].kind)) return;
    if (this.opened.has(key)) this.opened.delete(key); else this.opened.add(key);
    this.draw();
  }

  search(text, move = true) {
    text = text.trim().toLowerCase();
    this.cy.elements().removeClass("found");
    this.hits = [];
    if (!text) { $("found").textContent = ""; return; }
    const named = [], others = [];      // ops of the name come first, then those whose line, type or role has the text
    for (const node of this.graph.nodes) {
      const line = node.line === null ? "" : `${node.line} ${this.graph.lines[node.line]}`;
      if (node.op.toLowerCase().includes(text)) named.push(node);
      else if (`${node.type} ${node.attributes || ""} ${line} ${ROLES[node.role] || node.role}`.toLowerCase().includes(text)) others.push(node);
    }
    const ids = new Set([...named, ...others].map((node) => this.standIn(node)).map((id) => typeof id === "number" ? `n${id}` : id));
    $("found").textContent = named.length && others.length ? `${named.length} ops, ${others.length} by their line` : `${named.length + others.length} found`;
    for (const id of ids) { const node = this.cy.getElementById(id); if (node.nonempty()) { node.addClass("found"); this.hits.push(node); } }
    this.at = -1;
    if (move && this.hits.length) this.next();
  }

  next() {
    if (!this.hits || !this.hits.length) return;
    this.at = (this.at + 1) % this.hits.length;
    const node = this.hits[this.at];
    this.cy.elements().unselect();
    node.select();
    this.cy.zoom(Math.max(this.cy.zoom(), 0.9));
    this.cy.center(node);
    this.describe(node.data());
  }

  welcome() {
    const legend = element("p", { class: "legend" });
    for (const [role, name] of Object.entries(ROLES)) legend.append(element("span", { style: `background:${COLOURS[role]}` }, name));
    legend.append(element("span", { style: "border:2px solid #c0392b" }, "saved for the backward half"));
    $("details").replaceChildren(legend, element("p", { class: "note" },
      `${this.graph.nodes.filter((node) => node.kind !== "parameter" && node.kind !== "result").length} ops. Click an op for its facts; double-click a box with a thick border to open or fold it.`));
  }

  describe(data) {
    const list = element("dl"), add = (name, ...values) => list.append(element("dt", {}, name), element("dd", {}, ...values));
    const nodes = typeof data.key === "number" ? [this.graph.nodes[data.key]] : this.graph.nodes.filter((node) => `g:${this.group(node)}` === data.id);
    if (nodes.length === 1) {
      const [node] = nodes;
      add("op", node.op); add("type", node.type); add("role", ROLES[node.role] || node.role);
      if (node.attributes) add("attributes", node.attributes);
      if (node.line !== null) { const [name, source] = this.graph.lines[node.line].split("\n"); add(`${node.line} in ${name}`, element("code", {}, source)); }
      if (node.operations !== undefined) add("cost", `${sized(node.operations, "operations")}, ${sized(node.bytes, "B")} read and written`);
      if (node.saved) add("saved", "the backward half reads it");
    } else {
      add("group", data.id.slice(2)); add("ops", String(nodes.length));
      const counts = {};
      for (const node of nodes) counts[node.op] = (counts[node.op] || 0) + 1;
      add("which", Object.entries(counts).sort((a, b) => b[1] - a[1]).map(([name, count]) => count > 1 ? `${name} x ${count}` : name).join(", "));
      const outer = nodes.filter((node) => node.parent === null);
      add("cost", `${sized(outer.reduce((sum, node) => sum + (node.operations || 0), 0), "operations")}, ${sized(outer.reduce((sum, node) => sum + (node.bytes || 0), 0), "B")}`);
    }
    const lines = new Set(nodes.map((node) => node.line).filter((line) => line !== null));
    const steps = DATA.steps.filter((step) => lines.has(step.source.split("  ")[0]));
    if (steps.length) add("time of the steps of these lines", `${steps.reduce((sum, step) => sum + step.ms, 0).toFixed(4)} ms`);
    const blocks = DATA.memory.blocks.filter((block) => lines.has(block.line));
    if (blocks.length) add("memory of these lines", blocks.slice(0, 8).map((block) => `${block.name} ${sized(block.size, "B")}`).join(", "));
    $("details").replaceChildren(list);
  }

  line(line) {
    show("graph");
    $("search").value = line;
    this.search(line);
  }
}

// -- tables

function table(head, rows, numbers = []) {
  const body = element("tbody");
  for (const { cells, line } of rows) {
    const row = element("tr", line ? { class: "link", onclick: () => graph.line(line) } : {});
    cells.forEach((cell, index) => row.append(element("td", numbers.includes(index) ? { class: "number" } : {}, cell)));
    body.append(row);
  }
  return element("table", {}, element("thead", {}, element("tr", {}, ...head.map((name) => element("th", {}, name)))), body);
}

function kernels() {
  const section = $("kernels");
  section.append(element("h2", {}, `${DATA.kernels.length} kernels and steps, with their code`));
  for (const kernel of DATA.kernels) {
    const facts = `${kernel.name}${kernel.uses > 1 ? ` (used ${kernel.uses} times)` : ""}: ${sized(kernel.operations, "operations")}, ${sized(kernel.bytes, "B")}`;
    const box = element("details", {}, element("summary", {}, facts));
    box.addEventListener("toggle", () => {
      if (!box.open || box.children.length > 1) return;
      if (kernel.lines.length) box.append(element("pre", {}, kernel.lines.join("\n")));
      box.append(element("pre", {}, kernel.text));
      if (kernel.assembly) box.append(element("details", {}, element("summary", {}, "instructions of the processor"), element("pre", {}, kernel.assembly)));
    });
    section.append(box);
  }
}

function steps() {
  const section = $("steps"), total = DATA.steps.reduce((sum, step) => sum + step.ms, 0);
  if (!DATA.steps.length) {
    section.append(element("p", { class: "note" }, "Times are measured if example arguments are given: f.report(\"page.html\", *args)."));
    return;
  }
  section.append(element("h2", {}, `${total.toFixed(3)} ms a call in ${DATA.steps.length} steps`));
  if (DATA.machine) section.append(roofline(), element("p", { class: "dim" }, "The roof is that of arrays in memory: steps whose arrays lie in the cache may be above it."));
  const rows = [...DATA.steps].sort((a, b) => b.ms - a.ms).map((step) => ({
    line: step.source.split("  ")[0],
    cells: [step.ms.toFixed(4), element("span", { class: "share", style: `width:${Math.round(160 * step.ms / (total || 1))}px` }), step.name, ROLES[step.role] || step.role,
      step.ms ? sized(1e3 * step.operations / step.ms, "op/s") : "", step.ms ? sized(1e3 * step.bytes / step.ms, "B/s") : "", step.source] }));
  section.append(table(["ms", "share", "step", "role", "operations", "bytes", "source"], rows, [0, 4, 5]));
}

function roofline() {
  const width = 640, height = 320, left = 64, bottom = 40, { operations: peak, bytes: bandwidth } = DATA.machine;
  const points = DATA.steps.filter((step) => step.ms > 0 && step.operations > 0 && step.bytes > 0)
    .map((step) => ({ step, x: step.operations / step.bytes, y: 1e3 * step.operations / step.ms }));
  const xs = [0.01, peak / bandwidth * 8, ...points.map((point) => point.x)], ys = [peak * 1.5, peak / 1e4, ...points.map((point) => point.y)];
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)].map(Math.log10);
  const x = (value) => left + (width - left - 10) * (Math.log10(value) - x0) / (x1 - x0), y = (value) => height - bottom - (height - bottom - 10) * (Math.log10(value) - y0) / (y1 - y0);
  const svg = drawn("svg", { width, height, role: "img", "aria-label": "roofline" });
  const roof = (at) => Math.min(peak, at * bandwidth);
  for (let power = Math.ceil(x0); power <= x1; power += 1) svg.append(drawn("text", { x: x(10 ** power), y: height - bottom + 16, "text-anchor": "middle", class: "dim" }, String(Number((10 ** power).toPrecision(2)))));
  for (let power = Math.ceil(y0); power <= y1; power += 1) {
    svg.append(drawn("line", { x1: left, x2: width - 10, y1: y(10 ** power), y2: y(10 ** power), stroke: "#e6eaee" }));
    svg.append(drawn("text", { x: left - 6, y: y(10 ** power) + 4, "text-anchor": "end", class: "dim" }, sized(10 ** power, "op/s")));
  }
  svg.append(drawn("text", { x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, "operations for each byte read and written"));
  const corners = [10 ** x0, peak / bandwidth, 10 ** x1].map((at) => `${x(at)},${y(Math.max(roof(at), 10 ** y0))}`);
  svg.append(drawn("polyline", { points: corners.join(" "), fill: "none", stroke: "#404a56", "stroke-width": 2 }));
  svg.append(drawn("text", { x: width - 14, y: y(peak) - 6, "text-anchor": "end", class: "dim" }, `${sized(peak, "op/s")} in a product, ${sized(bandwidth, "B/s")} in a copy, measured with NumPy`));
  for (const point of points) {
    const dot = drawn("circle", { cx: x(point.x), cy: y(point.y), r: 5, fill: COLOURS[point.step.role] || "#888", stroke: "#404a56" });
    dot.append(drawn("title", {}, `${point.step.name}: ${point.step.ms.toFixed(4)} ms, ${sized(point.y, "op/s")}\n${point.step.source}`));
    dot.addEventListener("click", () => graph.line(point.step.source.split("  ")[0]));
    svg.append(dot);
  }
  return svg;
}

function memory() {
  const section = $("memory"), { blocks, live, arena, peak, naive, saved } = DATA.memory;
  section.append(element("h2", {}, `${sized(peak, "B")} of working memory at the peak, in an arena of ${sized(arena, "B")}`));
  section.append(element("p", { class: "note" }, `kept for the backward half: ${sized(saved, "B")}; keeping every intermediate value would take ${sized(naive, "B")}. Each box is a block over the ops that use it and its bytes; the line is what is in use. Click a box for its line.`));
  if (!blocks.length) return;
  const width = 1100, height = 420, left = 70, bottom = 24, count = Math.max(live.length, 1), top = Math.max(arena, ...live);
  const x = (op) => left + (width - left - 8) * op / count, y = (bytes) => height - bottom - (height - bottom - 8) * bytes / top;
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, style: "width:100%;max-width:1400px", role: "img", "aria-label": "memory timeline" });
  for (let part = 0; part <= 4; part += 1) svg.append(drawn("text", { x: left - 6, y: y(top * part / 4) + 4, "text-anchor": "end", class: "dim" }, sized(top * part / 4, "B")));
  for (const block of blocks) {
    const rect = drawn("rect", { x: x(block.first), y: y(block.offset + block.size), width: Math.max(x(block.last + 1) - x(block.first), 1),
      height: Math.max(y(block.offset) - y(block.offset + block.size), 0.5), fill: COLOURS[block.role] || "#ccc", stroke: "#5b6775", "stroke-width": 0.4, class: "block" });
    rect.append(drawn("title", {}, `${block.name}: ${sized(block.size, "B")}, ops ${block.first} to ${block.last}\n${block.source}`));
    if (block.line) rect.addEventListener("click", () => graph.line(block.line));
    svg.append(rect);
  }
  const line = live.flatMap((bytes, op) => [`${x(op)},${y(bytes)}`, `${x(op + 1)},${y(bytes)}`]);
  svg.append(drawn("polyline", { points: line.join(" "), fill: "none", stroke: "#000", "stroke-width": 1.4, "pointer-events": "none" }));
  svg.append(drawn("text", { x: width / 2, y: height - 4, "text-anchor": "middle", class: "dim" }, "ops, in their order"));
  section.append(svg);
  const largest = [...blocks].sort((a, b) => b.size - a.size).slice(0, 200);
  section.append(table(["size", "ops", "role", "value", "source"], largest.map((block) => ({
    line: block.line, cells: [sized(block.size, "B"), `${block.first}-${block.last}`, ROLES[block.role] || block.role, block.name, block.source] })), [0]));
}

function saved() {
  const section = $("saved");
  section.append(element("h2", {}, DATA.saved.length ? `${DATA.saved.length} values saved for the backward half` : "No values are saved for a backward half"));
  if (DATA.saved.length) section.append(table(["value", "type", "size", "made by", "why"], DATA.saved.map((row) => ({ cells: [row.value, row.type, row.size, row.made, row.why] })), [2]));
  section.append(element("h2", {}, DATA.recomputed.length ? `${DATA.recomputed.length} ops are computed again in the backward half` : "Nothing is computed again in the backward half"));
  if (DATA.recomputed.length) section.append(table(["op", "type", "where"], DATA.recomputed.map((row) => ({ cells: [row.value, row.type, row.where] }))));
}

for (const [name, text] of Object.entries(TABS)) $("tabs").append(element("button", { id: `tab-${name}`, role: "tab", onclick: () => show(name) }, text));
$("graph").classList.add("shown");
const graph = new GraphView();
kernels(); steps(); memory(); saved();
$("text").append(element("h2", {}, "Traces, ways through decisions, and passes"), element("pre", {}, DATA.explain));
show("graph");
window.adjitLoaded = performance.now();
