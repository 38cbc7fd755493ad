// Keeps the pages current: numbers every few seconds, curves with them. Nothing here changes anything on disk.
"use strict";

const EVERY_MS = 5000;
const THEMES = ["", "light", "dark"];

async function ask(path, values) {
  const answer = await fetch(`${path}?${new URLSearchParams(values || {})}`, {credentials: "omit"});
  if (!answer.ok) throw new Error(`${answer.status}`);
  return answer.json();
}

function setUpTheme() {
  const button = document.getElementById("theme");
  const apply = theme => {
    if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
    button.textContent = {"": "Auto", light: "Light", dark: "Dark"}[theme];
  };
  let theme = localStorage.getItem("theme") || "";
  apply(theme);
  button.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
    localStorage.setItem("theme", theme);
    apply(theme);
  });
}

function live(scope, key, text) {
  const place = scope.querySelector(`[data-live="${key}"]`);
  if (place && place.textContent !== text) place.textContent = text;
}

// --- the list ---------------------------------------------------------------------------------------------

function setUpList(table) {
  const rows = () => [...table.tBodies[0].rows], filter = document.getElementById("filter");
  const compare = document.getElementById("compare"), nothing = document.getElementById("no-match");
  let state = "";
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows()) {
      const text = `${row.dataset.name} ${JSON.parse(row.dataset.values).env}`.toLowerCase();
      row.hidden = !(words.every(word => text.includes(word)) && (!state || row.dataset.state === state));
    }
    nothing.hidden = rows().some(row => !row.hidden);
  };
  filter.addEventListener("input", apply);
  document.querySelectorAll("[data-state].chip").forEach(chip => chip.addEventListener("click", () => {
    state = chip.dataset.state;
    document.querySelectorAll("[data-state].chip").forEach(other => other.classList.toggle("on", other === chip));
    apply();
  }));
  const count = () => {
    const picked = table.querySelectorAll("input:checked").length;
    compare.disabled = picked === 0;
    compare.textContent = picked ? `Compare ${picked}` : "Compare";
  };
  table.addEventListener("change", count);
  count();
  table.querySelectorAll("th[data-sort]").forEach(head => head.addEventListener("click", () => sortBy(table, head)));
  setUpSparks(table);
  return () => refreshList(table);
}

function sortBy(table, head) {
  const down = head.dataset.order !== "down";
  table.querySelectorAll("th").forEach(other => delete other.dataset.order);
  head.dataset.order = down ? "down" : "up";
  const value = row => JSON.parse(row.dataset.values)[head.dataset.sort];
  const rows = [...table.tBodies[0].rows].sort((a, b) => {
    const x = value(a), y = value(b);
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === "string" ? x.localeCompare(y) : y - x;
    return down ? order : -order;
  });
  table.tBodies[0].append(...rows);
}

function setUpSparks(table) {
  const seen = new IntersectionObserver(entries => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      seen.unobserve(entry.target);
      drawSpark(entry.target);
    }
  });
  table.querySelectorAll("[data-spark]").forEach(cell => seen.observe(cell));
}

async function drawSpark(cell) {
  const curves = Object.values(await ask("/api/curve", {e: cell.dataset.spark, tag: "score", points: 60}));
  const best = curves.sort((a, b) => b.values[b.values.length - 1] - a.values[a.values.length - 1])[0];
  if (best) sparkline(cell, best.steps, best.values);
}

async function refreshList(table) {
  const all = await ask("/api/experiments");
  const known = new Map([...table.tBodies[0].rows].map(row => [row.dataset.name, row]));
  if (all.some(one => !known.has(one.name) || known.get(one.name).dataset.state !== one.status)) {
    // Something appeared, began or ended: the server renders that; ticks and filters must not be lost to it.
    if (!table.querySelector("input:checked") && !document.getElementById("filter").value) location.reload();
    return;
  }
  const running = all.filter(one => one.status === "RUNNING");
  for (const one of running) {
    const row = known.get(one.name);
    live(row, "score", shortScore(one.score));
    live(row, "best", shortScore(one.best_score));
    live(row, "fps", readable(one.fps));
    live(row, "left", one.left_sec === null ? "–" : duration(one.left_sec));
    const bar = row.querySelector("progress");
    if (bar && one.progress !== null) bar.value = one.progress;
    const frames = row.querySelector('[data-live="frames"]');
    frames.lastChild.textContent = readable(one.frames);
    row.dataset.values = JSON.stringify({...JSON.parse(row.dataset.values), score: one.score, frames: one.frames, fps: one.fps});
    drawSpark(row.querySelector("[data-spark]")).catch(() => {});
  }
  const overview = document.getElementById("overview");
  live(overview, "running", String(running.length));
  live(overview, "speed", running.length ? readable(running.reduce((sum, one) => sum + (one.fps || 0), 0)) : "–");
  live(overview, "frames", readable(all.reduce((sum, one) => sum + (one.frames || 0), 0)));
}

const shortScore = value => value === null ? "n/a" : value.toFixed(2);

// --- one experiment ---------------------------------------------------------------------------------------

function setUpFacts(facts) {
  const name = facts.dataset.experiment;
  return async () => {
    const now = await ask("/api/facts", {e: name});
    live(facts, "frames", readable(now.frames));
    live(facts, "fps", readable(now.fps));
    live(facts, "fps-note", now.left_sec === null ? "not running" : `${duration(now.left_sec)} left`);
    live(facts, "score", shortScore(now.score));
    live(facts, "score-note", `best ${shortScore(now.best_score)}`);
    live(facts, "trained", duration(now.train_seconds));
    const bar = facts.querySelector("progress"), pill = document.querySelector('[data-live="status"]');
    if (bar && now.progress !== null) bar.value = now.progress;
    if (pill.textContent !== now.status.toLowerCase()) location.reload();
    const verdict = document.getElementById("verdict");
    if (verdict && now.verdict) live(verdict, "verdict", now.verdict);
    if (verdict) drawShares(document.getElementById("shares"), now.shares);
    const log = document.getElementById("log");
    if (log && now.status === "RUNNING" && log.closest("details").open) {
      const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      log.textContent = (await ask("/api/log", {e: name})).text;
      if (atEnd) log.scrollTop = log.scrollHeight;
    }
  };
}

function drawShares(box, shares) {
  if (!box || shares.environment === undefined) return;
  const lines = [
    ["Environment", shares.environment, 0], ["Inference", shares.inference, 1], ["Learner", shares.learner, 2],
    ["Waiting", shares.waiting, 4], ["Other", shares.other, 5],
  ];
  box.replaceChildren();
  for (const [label, percent, index] of lines) {
    const line = html("div", "share", null, box);
    html("span", "", label, line);
    const bar = html("i", "", null, html("span", "track", null, line));
    bar.style.width = `${Math.min(100, percent)}%`;
    bar.style.background = colour(index);
    html("b", "", `${percent.toFixed(0)} %`, line);
  }
}

// --- curves -----------------------------------------------------------------------------------------------

const DEFAULT_CHARTS = [
  ["score", "Score"], ["0_aux/_fps", "Frames per second"], ["0_aux/avg_len", "Episode length"], ["train/entropy", "Entropy"],
  ["train/value_loss", "Value loss"], ["train/kl_divergence", "KL divergence"],
];

function setUpCharts(box) {
  const names = JSON.parse(box.dataset.experiments), charts = new Map(), removed = new Set();
  const view = {axis: "steps", smooth: 0};
  const options = () => ({xFormat: view.axis === "steps" ? readable : duration, smooth: view.smooth});
  const add = (tag, title) => {
    if (charts.has(tag)) return;
    const chart = new Chart(box, title, title === tag ? "" : tag === "score" ? "" : tag);
    const close = html("button", "close", "×", chart.head);
    close.type = "button";
    close.title = "remove this chart";
    close.addEventListener("click", () => { chart.box.remove(); charts.delete(tag); removed.add(tag); });
    charts.set(tag, {chart, data: []});
    load(tag);
  };
  const load = async tag => {
    const answers = await Promise.all(names.map(name => ask("/api/curve", {e: name, tag}).catch(() => ({}))));
    const entry = charts.get(tag);
    if (!entry) return;
    entry.data = answers;
    draw(entry);
  };
  const draw = entry => {
    const series = [];
    entry.data.forEach((policies, number) => {
      const several = Object.keys(policies).length > 1;
      for (const [policy, curve] of Object.entries(policies)) {
        const parts = names.length > 1 ? [names[number]] : [];
        if (several || !parts.length) parts.push(`policy ${policy}`);
        series.push({name: parts.join(" "), colour: colour(names.length > 1 ? number : Number(policy)), x: curve[view.axis], y: curve.values});
      }
    });
    entry.chart.show(series, options());
  };
  const tags = new Set([...document.getElementById("add-chart").options].map(option => option.value));
  for (const [tag, title] of DEFAULT_CHARTS) if (tag === "score" || tags.has(tag)) add(tag, title);
  document.querySelectorAll("[data-axis]").forEach(chip => chip.addEventListener("click", () => {
    view.axis = chip.dataset.axis;
    document.querySelectorAll("[data-axis]").forEach(other => other.classList.toggle("on", other === chip));
    charts.forEach(draw);
  }));
  document.getElementById("smooth").addEventListener("input", event => {
    view.smooth = Number(event.target.value);
    charts.forEach(draw);
  });
  document.getElementById("add-chart").addEventListener("change", event => {
    if (event.target.value) add(event.target.value, event.target.value);
    event.target.value = "";
  });
  // A session that has just begun has few values when its page is opened; the others come later.
  const addLateOnes = async () => {
    for (const [tag, title] of DEFAULT_CHARTS) {
      if (charts.has(tag) || removed.has(tag)) continue;
      const curves = await Promise.all(names.map(name => ask("/api/curve", {e: name, tag})));
      if (curves.some(policies => Object.keys(policies).length)) add(tag, title);
    }
  };
  return () => Promise.all([...[...charts.keys()].map(load), addLateOnes()]);
}

function setUpLineage(box) {
  let lineage = null, width = box.clientWidth;
  new ResizeObserver(() => {
    if (lineage && box.clientWidth !== width) {
      width = box.clientWidth;
      drawLineage(box, lineage);
    }
  }).observe(box);
  return async () => {
    const now = await ask("/api/lineage", {e: box.dataset.experiment});
    if (now && (!lineage || now.events.length !== lineage.events.length)) {
      lineage = now;
      drawLineage(box, lineage);
    }
  };
}

// --- every page -------------------------------------------------------------------------------------------

function keepCurrent(refreshers) {
  const pulse = document.getElementById("pulse");
  const turn = async () => {
    if (!document.hidden) {
      try {
        await Promise.all(refreshers.map(refresh => refresh()));
        pulse.className = "pulse on";
        pulse.textContent = "live";
      } catch {
        pulse.className = "pulse off";
        pulse.textContent = "the server does not answer";
      }
    }
    setTimeout(turn, EVERY_MS);
  };
  turn();
}

document.addEventListener("DOMContentLoaded", () => {
  setUpTheme();
  const parts = [
    ["experiments", setUpList], ["facts", setUpFacts], ["charts", setUpCharts], ["lineage", setUpLineage],
  ];
  const refreshers = [];
  for (const [id, setUp] of parts) {
    const found = document.getElementById(id);
    if (found) refreshers.push(setUp(found));
  }
  const shares = document.getElementById("shares");
  if (shares) drawShares(shares, JSON.parse(shares.dataset.shares));
  keepCurrent(refreshers);
});
