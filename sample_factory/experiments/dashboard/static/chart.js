// Line charts as SVG, without a library: axes, a legend, and the values under the pointer.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (parent) parent.append(made);
  return made;
}

function html(name, className, text, parent) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined && text !== null) made.textContent = text;  // never innerHTML: text stays text
  if (parent) parent.append(made);
  return made;
}

const colour = index => `var(--c${index % 8})`;

function readable(value) {
  if (value === null || value === undefined || !isFinite(value)) return "n/a";
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e9, "B"], [1e6, "M"], [1e3, "k"]]) {
    if (size >= limit) return `${trimmed(value / limit, 3)}${unit}`;
  }
  if (size !== 0 && size < 1e-3) return value.toExponential(1);
  return trimmed(value, 4);
}

function trimmed(value, digits) {
  return String(parseFloat(value.toPrecision(digits)));
}

function duration(seconds) {
  if (seconds === null || seconds === undefined || !isFinite(seconds)) return "n/a";
  const whole = Math.round(seconds), two = n => String(n).padStart(2, "0");
  const days = Math.floor(whole / 86400), hours = Math.floor(whole / 3600) % 24, minutes = Math.floor(whole / 60) % 60;
  if (days) return `${days}d ${two(hours)}h`;
  if (hours) return `${hours}h ${two(minutes)}m`;
  return minutes ? `${minutes}m ${two(whole % 60)}s` : `${whole}s`;
}

const ROUND_SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

function timeTicks(low, high, count) {
  const raw = (high - low || 1) / count;
  return multiples(low, high, ROUND_SECONDS.find(size => size >= raw) || Math.ceil(raw / 86400) * 86400);
}

function ticks(low, high, count) {
  const raw = (high - low || Math.abs(high) || 1) / count, power = 10 ** Math.floor(Math.log10(raw));
  return multiples(low, high, [1, 2, 2.5, 5, 10].map(factor => factor * power).find(size => size >= raw));
}

function multiples(low, high, step) {
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) {
    found.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  }
  return found;
}

function smoothed(values, weight) {
  if (!weight) return values;
  let mean = 0, share = 0;
  return values.map(value => {
    mean = weight * mean + (1 - weight) * value;
    share = weight * share + (1 - weight);
    return mean / share;
  });
}

// series: [{name, colour, x: [...], y: [...]}]; options: {xFormat, smooth, stepped}
class Chart {
  constructor(parent, title, note) {
    this.box = html("div", "chart", null, parent);
    const head = html("h3", "", title, this.box);
    if (note) html("code", "", note, head);
    this.head = head;
    this.area = html("div", "", null, this.box);
    this.legend = html("div", "legend", null, this.box);
    this.series = [];
    this.options = {};
    new ResizeObserver(() => this.draw()).observe(this.box);
    this.area.addEventListener("pointermove", event => this.point(event));
    this.area.addEventListener("pointerleave", () => this.unpoint());
  }

  show(series, options) {
    this.series = series;
    this.options = options;
    this.draw();
  }

  draw() {
    const known = this.series.filter(line => line.x.length);
    this.area.replaceChildren();
    this.legend.replaceChildren();
    this.plot = null;
    if (!known.length) {
      html("p", "empty", "no values yet", this.area);
      return;
    }
    const width = Math.max(260, this.area.clientWidth), height = this.options.height || 230;
    const left = 52, right = 14, top = 8, bottom = 24;
    const shown = known.map(line => ({...line, smooth: smoothed(line.y, this.options.smooth)}));
    const xs = known.flatMap(line => [line.x[0], line.x[line.x.length - 1]]);
    const ys = shown.flatMap(line => this.options.smooth ? line.smooth : line.y).filter(isFinite);
    let [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    if (x0 === x1) [x0, x1] = x1 > 0 ? [0, x1] : [x0, x0 + 1];
    const margin = (y1 - y0) * 0.06 || Math.abs(y1) * 0.1 || 1;
    y0 -= margin;
    y1 += margin;
    const px = x => left + (x - x0) / (x1 - x0) * (width - left - right);
    const py = y => top + (1 - (y - y0) / (y1 - y0)) * (height - top - bottom);
    const root = svg("svg", {viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": this.head.textContent}, this.area);
    for (const y of ticks(y0, y1, 5)) {
      svg("line", {x1: left, x2: width - right, y1: py(y), y2: py(y), class: "grid"}, root);
      svg("text", {x: left - 8, y: py(y) + 4, "text-anchor": "end"}, root).textContent = readable(y);
    }
    const xTicks = this.options.xFormat === duration ? timeTicks : ticks;
    for (const x of xTicks(x0, x1, Math.max(2, Math.floor(width / 110)))) {
      svg("text", {x: px(x), y: height - 6, "text-anchor": "middle"}, root).textContent = this.options.xFormat(x);
    }
    for (const line of shown) {
      if (this.options.smooth) svg("path", {d: path(line.x, line.y, px, py), class: "raw", stroke: line.colour}, root);
      const d = this.options.stepped ? stepped(line.x, line.y, px, py, x1) : path(line.x, line.smooth, px, py);
      svg("path", {d, class: "curve", stroke: line.colour}, root);
      const last = line.x.length - 1;
      svg("circle", {cx: px(line.x[last]), cy: py(line.smooth[last]), r: 2.6, fill: line.colour}, root);
    }
    if (known.length > 1) {
      for (const line of known) {
        const entry = html("span", "", null, this.legend);
        html("i", "", null, entry).style.background = line.colour;
        entry.append(line.name);
      }
    }
    this.plot = {root, shown, px, py, x0, x1, left, right, top, width, height, bottom};
  }

  point(event) {
    if (!this.plot) return;
    this.unpoint();
    const {root, shown, px, py, x0, x1, left, right, top, width, height, bottom} = this.plot;
    const box = root.getBoundingClientRect(), scale = width / box.width;
    const x = x0 + ((event.clientX - box.left) * scale - left) / (width - left - right) * (x1 - x0);
    if (x < x0 || x > x1) return;
    const marks = svg("g", {class: "marks"}, root);
    svg("line", {x1: px(x), x2: px(x), y1: top, y2: height - bottom, class: "cross"}, marks);
    const tip = html("div", "tip", null, this.box);
    html("b", "", this.options.xFormat(x), tip);
    for (const line of shown) {
      const index = nearest(line.x, x);
      svg("circle", {cx: px(line.x[index]), cy: py(line.smooth[index]), r: 3.5, fill: line.colour}, marks);
      const entry = html("div", "", null, tip);
      html("i", "", "● ", entry).style.color = line.colour;
      entry.append(`${shown.length > 1 ? line.name + ": " : ""}${readable(line.smooth[index])}`);
    }
    const own = this.box.getBoundingClientRect(), at = event.clientX - own.left;
    tip.style.left = at > own.width / 2 ? "" : `${at + 16}px`;
    tip.style.right = at > own.width / 2 ? `${own.width - at + 16}px` : "";
    tip.style.top = "40px";
  }

  unpoint() {
    this.box.querySelectorAll(".tip, .marks").forEach(old => old.remove());
  }
}

function path(x, y, px, py) {
  let d = "", pen = "M";
  for (let i = 0; i < x.length; i++) {
    if (y[i] === null || !isFinite(y[i])) { pen = "M"; continue; }
    d += `${pen}${px(x[i]).toFixed(1)} ${py(y[i]).toFixed(1)}`;
    pen = "L";
  }
  return d;
}

function stepped(x, y, px, py, end) {
  let d = "";
  for (let i = 0; i < x.length; i++) {
    d += `${d ? "L" : "M"}${px(x[i]).toFixed(1)} ${py(y[i]).toFixed(1)}`;
    d += `L${px(i + 1 < x.length ? x[i + 1] : end).toFixed(1)} ${py(y[i]).toFixed(1)}`;
  }
  return d;
}

function nearest(sorted, value) {
  let low = 0, high = sorted.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle; else high = middle;
  }
  return Math.abs(sorted[low] - value) <= Math.abs(sorted[high] - value) ? low : high;
}

function sparkline(parent, x, y) {
  parent.replaceChildren();
  const good = y.map((value, i) => [x[i], value]).filter(pair => isFinite(pair[1]));
  if (good.length < 2) return;
  const width = 118, height = 28, ys = good.map(pair => pair[1]);
  const [x0, x1] = [good[0][0], good[good.length - 1][0]], [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  const px = value => 2 + (value - x0) / (x1 - x0 || 1) * (width - 6), py = value => height - 4 - (value - y0) / (y1 - y0 || 1) * (height - 8);
  const root = svg("svg", {width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true"}, parent);
  svg("path", {d: path(good.map(p => p[0]), ys, px, py), class: "curve", stroke: colour(0)}, root);
  svg("circle", {cx: px(x1), cy: py(ys[ys.length - 1]), r: 2.4, fill: colour(0)}, root);
}
