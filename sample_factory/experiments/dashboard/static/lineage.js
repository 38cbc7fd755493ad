// The history of a population: a lane per policy, arrows for copies, and what was tuned.
"use strict";

function drawLineage(box, lineage) {
  box.replaceChildren();
  drawLanes(box, lineage);
  const tuned = html("div", "tuned", null, box), end = lineage.events[lineage.events.length - 1].time;
  for (const [name, histories] of Object.entries(lineage.tuned)) {
    const series = histories.map((points, policy) => ({
      name: `policy ${policy}`, colour: colour(policy),
      x: points.map(point => point[0] - lineage.start).concat(points.length ? [end - lineage.start] : []),
      y: points.map(point => point[1]).concat(points.length ? [points[points.length - 1][1]] : []),
    }));
    new Chart(tuned, name).show(series, {xFormat: duration, stepped: true, height: 150});
  }
}

function drawLanes(box, lineage) {
  const policies = lineage.num_policies, lane = 46, left = 78, right = 18, top = 14, bottom = 26;
  const width = Math.max(480, box.clientWidth), height = top + bottom + lane * policies;
  const root = svg("svg", {viewBox: `0 0 ${width} ${height}`, height, width: "100%", role: "img", "aria-label": "lineage of the population"}, box);
  const start = lineage.start, end = lineage.events[lineage.events.length - 1].time, span = end - start || 1;
  const px = time => left + (time - start) / span * (width - left - right), py = policy => top + lane * (policy + 0.5);
  const objectives = lineage.events.flatMap(event => event.objectives).filter(value => value !== null && isFinite(value));
  const low = Math.min(...objectives), high = Math.max(...objectives);
  const strength = value => value === null || !isFinite(value) ? 0 : (value - low) / (high - low || 1);
  defineArrow(root);
  for (const seconds of timeTicks(0, span, Math.max(3, Math.floor(width / 140)))) {
    svg("line", {x1: px(start + seconds), x2: px(start + seconds), y1: top, y2: height - bottom, class: "grid"}, root);
    svg("text", {x: px(start + seconds), y: height - 8, "text-anchor": "middle"}, root).textContent = duration(seconds);
  }
  for (let policy = 0; policy < policies; policy++) {
    svg("text", {x: left - 12, y: py(policy) + 4, "text-anchor": "end"}, root).textContent = `policy ${policy}`;
    let from = start, value = low;
    for (const event of lineage.events) {
      drawLane(root, px(from), px(event.time), py(policy), strength(value));
      from = event.time;
      if (policy < event.objectives.length) value = event.objectives[policy];
    }
  }
  for (const event of lineage.events) drawEvent(box, root, event, px(event.time), py, start);
}

function defineArrow(root) {
  const marker = svg("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse"}, svg("defs", {}, root));
  svg("path", {d: "M0 0 L8 4 L0 8 z", fill: "var(--c1)"}, marker);
}

function drawLane(root, x1, x2, y, strength) {
  const stroke = `color-mix(in srgb, var(--warm) ${Math.round(100 * strength)}%, var(--cold))`;
  svg("line", {x1, x2: Math.max(x2, x1 + 0.5), y1: y, y2: y, "stroke-width": 4 + 5 * strength}, root).style.stroke = stroke;
}

function drawEvent(box, root, event, x, py, start) {
  const group = svg("g", {class: `event ${event.event}`}, root), y = py(event.policy);
  if (event.donor !== null) {
    const from = py(event.donor), direction = Math.sign(y - from) || 1;
    svg("path", {d: `M${x - 7} ${from} C${x - 7} ${(from + y) / 2} ${x} ${(from + y) / 2} ${x} ${y - direction * 7}`,
      fill: "none", stroke: "var(--c1)", "stroke-width": 1.8, "marker-end": "url(#arrow)"}, group);
    svg("circle", {cx: x - 7, cy: from, r: 3, fill: "var(--c1)"}, group);
  } else if (event.event === "mutated") {
    svg("path", {d: `M${x} ${y - 6} l6 6 l-6 6 l-6 -6 z`, fill: "var(--card)", stroke: "var(--c3)", "stroke-width": 1.6}, group);
  } else {
    svg("circle", {cx: x, cy: y, r: 2.4, fill: "var(--card)"}, group);
  }
  svg("circle", {cx: x, cy: y, r: 10, fill: "transparent"}, group);
  group.addEventListener("pointerenter", () => showEvent(box, event, x / root.viewBox.baseVal.width, y, start));
  group.addEventListener("pointerleave", () => box.querySelectorAll(":scope > .tip").forEach(old => old.remove()));
}

function showEvent(box, event, share, y, start) {
  const tip = html("div", "tip", null, box), what = event.donor !== null ? `replaced by a copy of policy ${event.donor}` : event.event;
  html("b", "", `policy ${event.policy} ${what}`, tip);
  html("div", "", `after ${duration(event.time - start)}, ${readable(event.env_steps)} frames`, tip);
  html("div", "", `objective ${readable(event.objectives[event.policy])}`, tip);
  for (const [name, value] of Object.entries(event.tuned)) html("div", "", `${name} ${readable(value)}`, tip);
  const side = share > 0.6 ? "right" : "left";
  tip.style[side] = `${(side === "left" ? share : 1 - share) * 100}%`;
  tip.style.top = `${y + 14}px`;
}
