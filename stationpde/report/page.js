"use strict";
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const $ = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  // The colours of the maps: those of COLOUR_MAPS in plots/maps.py at equal distances, which a test compares.
  const PALETTES = {
    t: ["#313695", "#4574b3", "#74add1", "#aad8e9", "#e0f3f8", "#fffebe", "#fee090", "#fdad60", "#f46d43", "#d62f27",
      "#a50026"],
    rh: ["#ffffd9", "#edf8b1", "#c6e9b4", "#7ecdbb", "#40b5c4", "#1d90c0", "#225da8", "#243392", "#081d58"],
    p: ["#440154", "#48186a", "#472d7b", "#424086", "#3b528b", "#33638d", "#2c728e", "#26828e", "#21918c",
      "#1fa088", "#28ae80", "#3fbc73", "#5ec962", "#84d44b", "#addc30", "#d8e219", "#fde725"],
    u: ["#053061", "#2065ab", "#4393c3", "#90c4dd", "#d1e5f0", "#f7f6f6", "#fddbc7", "#f3a481", "#d6604d", "#b1182b",
      "#67001f"],
    spread: ["#fee838", "#f9e03a", "#f0d846", "#e7d150", "#dec958", "#d6c35d", "#cebc63", "#c5b568", "#bdae6c", "#b6a96f",
      "#ada272", "#a59c74", "#9d9576", "#969077", "#8f8a78", "#878478", "#7f7e78", "#797977", "#727374", "#6c6d72",
      "#656870", "#5e636f", "#575d6d", "#50576c", "#48526c", "#414d6c", "#39486c", "#2f426d", "#243c6e", "#18376f",
      "#013271", "#002d68", "#002859", "#00224e"],
  };
  PALETTES.v = PALETTES.difference = PALETTES.u;

  // ---- small tools -------------------------------------------------------------------------------------------
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const words = (text) => new Int16Array(bytes(text).buffer);
  const make = (name, attributes, parent) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (parent) parent.appendChild(made);
    return made;
  };
  const rgb = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  const ramps = {};
  const ramp = (name) => {
    if (!ramps[name]) {
      const stops = PALETTES[name].map(rgb), made = new Uint8Array(256 * 3);
      for (let i = 0; i < 256; i++) {
        const x = (i / 255) * (stops.length - 1), k = Math.min(Math.floor(x), stops.length - 2);
        for (let c = 0; c < 3; c++) made[3 * i + c] = stops[k][c] + (x - k) * (stops[k + 1][c] - stops[k][c]);
      }
      ramps[name] = made;
    }
    return ramps[name];
  };
  const css = (ramped, share) => {
    const i = 3 * Math.max(0, Math.min(255, Math.round(255 * share)));
    return `rgb(${ramped[i]},${ramped[i + 1]},${ramped[i + 2]})`;
  };
  const digits = (step) => Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
  const ticks = (low, high, most) => {
    const raw = (high - low) / most, size = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * size).find((s) => s >= raw * 0.999);
    const found = [];
    for (let x = Math.ceil(low / step - 1e-6); x * step <= high + 1e-6 * step; x++) found.push(x * step);
    return { found, step };
  };

  // ---- charts ------------------------------------------------------------------------------------------------
  function chart(host, options) {
    host.textContent = "";
    const width = Math.max(host.clientWidth, 220), height = options.height || 170;
    const box = { left: 44, right: 10, top: 8, bottom: options.xlabel ? 38 : 24 };
    const svg = make("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, height, role: "img",
      "aria-label": options.label || "" }, host);
    const all = options.lines.flatMap((line) => [...line.y, ...(line.area || [])].filter(Number.isFinite));
    const xs = options.lines.flatMap((line) => line.x.filter(Number.isFinite));
    if (!all.length) { make("text", { x: box.left, y: height / 2 }, svg).textContent = "nothing observed"; return; }
    let low = Math.min(...all), high = Math.max(...all);
    if (options.zero) low = Math.min(low, 0);
    const room = (high - low) * 0.06 || 0.5;
    high += room; if (!options.zero) low -= room;
    const [first, last] = options.range || [Math.min(...xs), Math.max(...xs)];
    const X = (x) => box.left + ((x - first) / (last - first || 1)) * (width - box.left - box.right);
    const Y = (y) => height - box.bottom - ((y - low) / (high - low)) * (height - box.top - box.bottom);
    if (options.past !== undefined) {
      make("rect", { class: "past", x: X(first), y: box.top, width: Math.max(0, X(options.past) - X(first)),
        height: height - box.top - box.bottom }, svg);
    }
    const vertical = ticks(low, high, 4), across = ticks(first, last, Math.max(2, Math.floor(width / 75)));
    for (const y of vertical.found) {
      make("line", { class: "grid", x1: box.left, x2: width - box.right, y1: Y(y), y2: Y(y) }, svg);
      make("text", { x: box.left - 6, y: Y(y) + 4, "text-anchor": "end" }, svg).textContent = y.toFixed(digits(vertical.step));
    }
    for (const x of across.found) {
      make("text", { x: X(x), y: height - box.bottom + 15, "text-anchor": "middle" }, svg).textContent = x.toFixed(digits(across.step));
    }
    if (options.xlabel) {
      make("text", { x: (box.left + width - box.right) / 2, y: height - 4, "text-anchor": "middle" }, svg).textContent = options.xlabel;
    }
    if (options.cursor !== undefined) {
      make("line", { class: "cursor", x1: X(options.cursor), x2: X(options.cursor), y1: box.top, y2: height - box.bottom }, svg);
    }
    for (const line of options.lines) {
      if (line.dots) {
        line.x.forEach((x, i) => Number.isFinite(line.y[i]) &&
          make("circle", { cx: X(x), cy: Y(line.y[i]), r: line.size || 2.4, fill: line.color, "fill-opacity": line.opacity || 1 }, svg));
        continue;
      }
      if (line.area) {
        // Both ends in one outline: there along the upper, back along the lower.
        const there = line.x.map((x, i) => `${X(x).toFixed(1)} ${Y(line.y[i]).toFixed(1)}`);
        const back = line.x.map((x, i) => `${X(x).toFixed(1)} ${Y(line.area[i]).toFixed(1)}`).reverse();
        make("path", { class: "band", d: `M${[...there, ...back].join("L")}Z`, fill: line.color, "fill-opacity": line.opacity || 0.22 }, svg);
        continue;
      }
      let path = "", pen = "M";
      line.x.forEach((x, i) => {
        if (!Number.isFinite(line.y[i])) { pen = "M"; return; }
        path += `${pen}${X(x).toFixed(1)} ${Y(line.y[i]).toFixed(1)}`;
        pen = "L";
      });
      make("path", { d: path, fill: "none", stroke: line.color, "stroke-width": line.width || 1.8,
        "stroke-linejoin": "round", ...(line.dash ? { "stroke-dasharray": line.dash } : {}) }, svg);
    }
  }
  const figure = (host, title) => {
    const made = document.createElement("figure"), head = document.createElement("h3"), place = document.createElement("div");
    made.style.margin = "0";
    head.textContent = title;
    made.append(head, place);
    host.appendChild(made);
    return place;
  };
  const redraw = [];
  const colour = (i) => `var(--c${i % 6})`;

  // ---- the map and the station -------------------------------------------------------------------------------
  function startMap() {
    const { grid, relief, frames, stations, variables, series } = content;
    const cells = grid.height * grid.width, count = stations.id.length, steps = series.hours.length;
    const layers = { forecast: {}, truth: {} }, observed = {}, forecast = {}, bands = {};
    for (const { name } of variables) {
      for (const layer of ["forecast", "truth"]) layers[layer][name] = bytes(frames[layer][name]);
      observed[name] = words(series.observed[name]);
      forecast[name] = words(series.forecast[name]);
      bands[name] = series.bands[name].map(words);
    }
    const metres = words(relief.metres);
    const state = { time: frames.lead.length - 1, variable: "t", layer: "forecast", station: 0 };
    if (!variables.some((v) => v.name === "t")) state.variable = variables[0].name;
    const canvas = $("canvas"), overlay = $("stations"), pad = document.createElement("canvas");
    pad.width = relief.columns; pad.height = relief.rows;
    const value = (table, name, i) => {
      const [offset, step] = series.scale[name];
      return table[name][i] === -32768 ? NaN : offset + step * table[name][i];
    };

    // Light from the north-west; the coast is where the relief leaves the sea.
    const light = new Float32Array(metres.length), R = relief.rows, C = relief.columns;
    const unknown = -32768;
    const height = (r, c) => Math.max(0, metres[Math.min(R - 1, Math.max(0, r)) * C + Math.min(C - 1, Math.max(0, c))]);
    for (let r = 0; r < R; r++) for (let c = 0; c < C; c++) {
      const east = (15 * (height(r, c + 1) - height(r, c - 1))) / (2 * relief.pixel);
      const north = (15 * (height(r + 1, c) - height(r - 1, c))) / (2 * relief.pixel);
      const lit = (0.5 * east - 0.5 * north + Math.SQRT1_2) / Math.hypot(1, east, north);
      const edge = [[0, 1], [0, -1], [1, 0], [-1, 0]].some(([a, b]) =>
        metres[Math.min(R - 1, Math.max(0, r + a)) * C + Math.min(C - 1, Math.max(0, c + b))] === unknown);
      light[r * C + c] = edge ? 0 : Math.max(-0.3, Math.min(0.3, 0.6 * (lit - Math.SQRT1_2)));
    }
    const coast = [];
    if (relief.is_true) {
      for (let r = 0; r < R - 1; r++) for (let c = 0; c < C - 1; c++) {
        const corners = [[r, c], [r, c + 1], [r + 1, c + 1], [r + 1, c]], cuts = [];
        if (corners.some(([a, b]) => metres[a * C + b] === unknown)) continue;
        for (let k = 0; k < 4; k++) {
          const [a, b] = [corners[k], corners[(k + 1) % 4]];
          const [p, q] = [metres[a[0] * C + a[1]] - 0.5, metres[b[0] * C + b[1]] - 0.5];
          if ((p < 0) !== (q < 0)) {
            const s = p / (p - q);
            cuts.push([(a[1] + s * (b[1] - a[1])) / (C - 1), 1 - (a[0] + s * (b[0] - a[0])) / (R - 1)]);
          }
        }
        for (let k = 0; k + 1 < cuts.length; k += 2) coast.push([cuts[k], cuts[k + 1]]);
      }
    }

    const shade = (share, empty) => {
      // share: values of cells from 0 to 1, or NaN
      const palette = ramp(named());
      const picture = pad.getContext("2d"), image = picture.createImageData(C, R);
      const [h, w] = isChance() ? [chances.rows, chances.columns] : [grid.height, grid.width];
      for (let r = 0; r < R; r++) for (let c = 0; c < C; c++) {
        const y = (r / (R - 1)) * (h - 1), x = (c / (C - 1)) * (w - 1);
        const i = Math.min(h - 2, Math.floor(y)), j = Math.min(w - 2, Math.floor(x)), a = y - i, b = x - j;
        const v = (1 - a) * ((1 - b) * share[i * w + j] + b * share[i * w + j + 1]) +
          a * ((1 - b) * share[(i + 1) * w + j] + b * share[(i + 1) * w + j + 1]);
        const at = 4 * ((R - 1 - r) * C + c), lit = light[r * C + c];
        const k = Number.isFinite(v) ? 3 * Math.max(0, Math.min(255, Math.round(255 * v))) : -1;
        for (let n = 0; n < 3; n++) {
          const own = k < 0 ? empty[n] : palette[k + n];
          image.data[at + n] = lit < 0 ? own * (1 + lit) : own + (255 - own) * lit;
        }
        image.data[at + 3] = 255;
      }
      picture.putImageData(image, 0, 0);
    };
    // Spread and chances are read from quantiles on cells; of the wind there is the speed.
    const chances = content.chances, tables = {}, limits = {};
    if (chances) for (const [name, text] of Object.entries(chances.quantiles)) tables[name] = words(text);
    const isChance = () => state.layer === "spread" || state.layer === "above";
    const chanceName = () => (state.variable === "u" || state.variable === "v" ? "ff" : state.variable);
    const named = () => (isChance() ? "spread" : state.layer === "difference" ? "difference" : state.variable);
    const quantile = (name, k, i) => {
      const [offset, step] = chances.scale[name], size = chances.rows * chances.columns;
      return offset + step * tables[name][((state.time - chances.first) * chances.levels.length + k) * size + i];
    };
    const limitOf = (name) => {
      if (limits[name] === undefined) {
        const middle = chances.levels.indexOf(0.5), size = chances.rows * chances.columns, all = [];
        for (let i = 0; i < size; i++) all.push(quantile(name, middle, i));
        limits[name] = Number((all.reduce((a, b) => a + b, 0) / size).toPrecision(2));
      }
      return limits[name];
    };
    const chanceValues = () => {
      const name = chanceName(), size = chances.rows * chances.columns, made = new Float32Array(size).fill(NaN);
      if (!tables[name] || state.time < chances.first) return made;
      const { levels } = chances, low = levels.indexOf(0.1), high = levels.indexOf(0.9);
      for (let i = 0; i < size; i++) {
        if (state.layer === "spread") { made[i] = quantile(name, high, i) - quantile(name, low, i); continue; }
        const limit = limitOf(name), last = levels.length - 1;
        let below = limit < quantile(name, 0, i) ? levels[0] / 2 : (1 + levels[last]) / 2;
        for (let k = 0; k < last; k++) {
          const a = quantile(name, k, i), b = quantile(name, k + 1, i);
          if (limit >= a && limit <= b) { below = levels[k] + (b > a ? (limit - a) / (b - a) : 0.5) * (levels[k + 1] - levels[k]); break; }
        }
        made[i] = 100 * (1 - below);
      }
      return made;
    };
    const shares = () => {
      if (isChance()) {
        const [low, high] = scaleOf();
        return chanceValues().map((v) => (v - low) / (high - low || 1));
      }
      const found = new Float32Array(cells), at = state.time * cells;
      const [a, b] = [layers.forecast[state.variable], layers.truth[state.variable]];
      for (let i = 0; i < cells; i++) {
        const [f, o] = [a[at + i], b[at + i]];
        if (state.layer === "difference") found[i] = f && o ? 0.5 + (2 * (f - o)) / 254 : NaN;
        else { const v = state.layer === "truth" ? o : f; found[i] = v ? (v - 1) / 254 : NaN; }
      }
      return found;
    };
    const scaleOf = () => {
      if (state.layer === "above") return [0, 100];
      if (state.layer === "spread") {
        const finite = [...chanceValues()].filter(Number.isFinite);
        return finite.length ? [0, Math.max(...finite)] : [0, 1];
      }
      const [low, high] = frames.scale[state.variable];
      return state.layer === "difference" ? [-(high - low) / 4, (high - low) / 4] : [low, high];
    };

    function drawField() {
      const box = $("map"), wide = box.clientWidth, high = Math.round(wide / grid.aspect), ratio = Math.min(2, devicePixelRatio || 1);
      box.style.height = `${high}px`;
      canvas.width = wide * ratio; canvas.height = high * ratio;
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.imageSmoothingEnabled = true;
      shade(shares(), [233, 236, 239]);
      pen.drawImage(pad, 0, 0, wide, high);
      pen.strokeStyle = "rgba(29,39,51,.85)"; pen.lineWidth = 1.1; pen.beginPath();
      for (const [a, b] of coast) { pen.moveTo(a[0] * wide, a[1] * high); pen.lineTo(b[0] * wide, b[1] * high); }
      pen.stroke();
      if (state.layer === "forecast" || state.layer === "truth") drawWind(pen, wide, high);
    }
    function drawWind(pen, wide, high) {
      if (!layers.forecast.u || !layers.forecast.v) return;
      const { height: h, width: w } = grid, table = layers[state.layer], at = state.time * cells;
      const real = (name, i) => {
        const [low, top] = frames.scale[name], v = table[name][at + i];
        return v ? low + ((v - 1) / 254) * (top - low) : NaN;
      };
      const apart = 30, every = Math.max(1, Math.round((apart * w) / wide)), usual = frames.wind;
      const length = ((every * wide) / w) * 0.95;
      for (const [style, thick] of [["rgba(255,255,255,.75)", 3], ["rgba(29,39,51,.95)", 1.3]]) {
        pen.strokeStyle = style; pen.lineWidth = thick; pen.lineCap = "round"; pen.beginPath();
        for (let i = Math.floor(every / 2); i < h; i += every) for (let j = Math.floor(every / 2); j < w; j += every) {
          const u = real("u", i * w + j), v = real("v", i * w + j);
          if (!Number.isFinite(u + v)) continue;
          const x = (j / (w - 1)) * wide, y = (1 - i / (h - 1)) * high;
          let dx = (u / usual) * length, dy = (-v / usual) * length;
          const size = Math.hypot(dx, dy);
          if (size > 1.5 * length) { dx *= (1.5 * length) / size; dy *= (1.5 * length) / size; }
          const tip = [x + dx / 2, y + dy / 2], angle = Math.atan2(dy, dx), head = Math.min(5, 0.45 * Math.hypot(dx, dy));
          pen.moveTo(x - dx / 2, y - dy / 2); pen.lineTo(...tip);
          for (const turn of [2.6, -2.6]) {
            pen.moveTo(...tip); pen.lineTo(tip[0] + head * Math.cos(angle + turn), tip[1] + head * Math.sin(angle + turn));
          }
        }
        pen.stroke();
      }
    }

    const dots = [];
    function drawStations() {
      const box = $("map"), wide = box.clientWidth, high = box.clientHeight;
      overlay.setAttribute("viewBox", `0 0 ${wide} ${high}`);
      const [low, top] = frames.scale[state.variable], palette = ramp(state.variable);
      const step = frames.step[state.time], radius = Math.max(2.5, Math.min(5.5, wide / (8 * Math.sqrt(count + 20))));
      for (let i = 0; i < count; i++) {
        const dot = dots[i], seen = value(observed, state.variable, step * count + i);
        dot.setAttribute("cx", stations.x[i] * wide); dot.setAttribute("cy", stations.y[i] * high);
        dot.setAttribute("r", i === state.station ? radius + 2 : radius);
        dot.setAttribute("class", `station${Number.isFinite(seen) ? "" : " silent"}${i === state.station ? " chosen" : ""}`);
        if (Number.isFinite(seen)) dot.setAttribute("fill", css(palette, (seen - low) / (top - low || 1)));
        else dot.removeAttribute("fill");
      }
    }
    function drawSeries() {
      const now = frames.lead[state.time];
      for (const { name, place, label } of panels) {
        const seen = [], made = [], ahead = series.hours.slice(series.history);
        for (let k = 0; k < steps; k++) seen.push(value(observed, name, k * count + state.station));
        for (let k = 0; k < ahead.length; k++) made.push(value(forecast, name, k * count + state.station));
        const ends = bands[name].map((end) => ahead.map((_, k) => value({ [name]: end }, name, k * count + state.station)));
        // The widest first: where bands lie on each other the colour is deeper.
        const fan = ends.slice(0, ends.length / 2).map((low, k) => (
          { x: ahead, y: ends[ends.length - 1 - k], area: low, color: "var(--c0)", opacity: 0.16 }));
        chart(place, { label, height: 125, past: 0, cursor: now, range: [series.hours[0], series.hours[steps - 1]], lines: [...fan,
          { x: series.hours, y: seen, dots: true, color: "var(--ink)" }, { x: ahead, y: made, color: "var(--c0)", width: 2.2 }] });
      }
      $("station-name").textContent = stations.label[state.station];
      $("station-place").textContent = `${stations.alt[state.station]} m · ${stations.where[state.station]}`;
      $("station").value = String(state.station);
    }
    function drawLegend() {
      const unit = variables.find((v) => v.name === state.variable), [low, high] = scaleOf();
      let name = state.layer === "difference" ? unit.difference : unit.unit;
      if (isChance()) name = state.layer === "above" ? "%" : chances.differences[chanceName()] || "";
      if ($("limits")) {
        $("limits").hidden = state.layer !== "above" || !tables[chanceName()];
        if (!$("limits").hidden) {
          $("limit").value = String(limitOf(chanceName()));
          $("limit-unit").textContent = `${chances.units[chanceName()]}, ${chances.titles[chanceName()].toLowerCase()}`;
        }
      }
      $("low").textContent = low.toFixed(1);
      $("high").textContent = `${high.toFixed(1)} ${name}`;
      $("ramp").style.background = `linear-gradient(to right, ${PALETTES[named()].join(",")})`;
    }
    const drawTime = () => {
      const lead = frames.lead[state.time];
      $("when").textContent = `${frames.times[state.time]} UTC, ${lead ? `${lead} h ahead` : "at issue"}`;
      $("time").value = String(state.time);
    };
    const draw = () => { drawField(); drawStations(); drawLegend(); drawTime(); };
    const choose = (i) => { state.station = i; drawStations(); drawSeries(); };

    const list = $("station");
    stations.label.forEach((name, i) => {
      const option = document.createElement("option");
      option.value = String(i); option.textContent = name;
      list.appendChild(option);
      const dot = make("circle", { class: "station", tabindex: "0", role: "button", "data-station": i, "aria-label": name }, overlay);
      make("title", {}, dot).textContent = `${name}, ${stations.alt[i]} m`;
      dot.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(i); } });
      dots.push(dot);
    });
    const picker = $("variable");
    for (const { name, title } of variables) {
      const option = document.createElement("option");
      option.value = name; option.textContent = title;
      picker.appendChild(option);
    }
    const panels = variables.map(({ name, title, unit }) => {
      const label = `${title} [${unit}]`;
      return { name, label, place: figure($("series"), label) };
    });
    picker.value = state.variable;
    $("time").max = String(frames.lead.length - 1);
    picker.addEventListener("change", () => { state.variable = picker.value; draw(); });
    $("layer").addEventListener("change", () => { state.layer = $("layer").value; draw(); });
    if ($("limit")) $("limit").addEventListener("change", () => {
      const typed = Number($("limit").value);
      if ($("limit").value !== "" && Number.isFinite(typed)) limits[chanceName()] = typed;
      draw();
    });
    $("time").addEventListener("input", () => { state.time = Number($("time").value); draw(); drawSeries(); });
    list.addEventListener("change", () => choose(Number(list.value)));
    $("map").addEventListener("click", (event) => {
      // A finger is wider than a dot: the nearest station is meant.
      const box = $("map").getBoundingClientRect();
      let best = 0, least = Infinity;
      for (let i = 0; i < count; i++) {
        const away = Math.hypot(event.clientX - box.left - stations.x[i] * box.width, event.clientY - box.top - stations.y[i] * box.height);
        if (away < least) { least = away; best = i; }
      }
      choose(best);
    });
    let timer = 0;
    $("play").addEventListener("click", () => {
      if (timer) { clearInterval(timer); timer = 0; $("play").textContent = "Play"; return; }
      $("play").textContent = "Stop";
      timer = setInterval(() => { state.time = (state.time + 1) % frames.lead.length; draw(); drawSeries(); }, 700);
    });
    redraw.push(() => { draw(); drawSeries(); });
  }

  // ---- errors, router, training ------------------------------------------------------------------------------
  function startErrors() {
    const { lead, models, variables } = content.errors;
    for (const { name, title, unit } of variables) {
      const place = figure($("errors"), `${title}, RMSE [${unit}]`);
      redraw.push(() => chart(place, { zero: true, xlabel: "hours ahead", label: title, lines: models.map((model, i) => (
        { x: lead, y: model.rmse[name], color: colour(i), width: i ? 1.5 : 2.6 })) }));
    }
    const { altitude, rmse } = content.altitude;
    for (const { name, title, unit } of variables) {
      const place = figure($("altitudes"), `${title}, RMSE [${unit}]`);
      redraw.push(() => chart(place, { zero: true, xlabel: "altitude [m]", label: title, lines: [
        { x: altitude, y: rmse[name].map((v) => (v === null ? NaN : v)), dots: true, size: 3, opacity: 0.7, color: "var(--c0)" }] }));
    }
  }
  function startUncertainty() {
    const { lead, variables, events } = content.uncertainty;
    const flat = (x, y) => ({ x: [x[0], x[x.length - 1]], y: [y, y], color: "var(--faint)", width: 1, dash: "4 3" });
    const levels = [["0.9", "var(--c0)"], ["0.8", "var(--c2)"], ["0.5", "var(--c3)"]];
    for (const { title, coverage, pit } of variables) {
      const covered = figure($("coverage"), title), place = figure($("pit"), title);
      redraw.push(() => chart(covered, { xlabel: "hours ahead", label: `coverage, ${title}`, lines: levels.flatMap(([level, color]) => [
        flat(lead, 100 * Number(level)),
        { x: lead, y: coverage[level].map((v) => (v === null ? NaN : v)), color }]) }));
      const x = pit.flatMap((_, k) => [k / pit.length, (k + 1) / pit.length]), y = pit.flatMap((v) => [v, v]);
      redraw.push(() => chart(place, { zero: true, xlabel: "probability of a lower value", label: `PIT, ${title}`, height: 150,
        lines: [flat([0, 1], 1), { x, y: y.map(() => 0), area: y, color: "var(--c2)" }, { x, y, color: "var(--c2)" }] }));
    }
    for (const { title, parts } of events) {
      const place = figure($("reliability"), title);
      const x = parts.map((part) => part[0]), y = parts.map((part) => part[1]);
      redraw.push(() => chart(place, { zero: true, range: [0, 100], xlabel: "forecast [%]", label: `reliability, ${title}`, lines: [
        { x: [0, 100], y: [0, 100], color: "var(--faint)", width: 1, dash: "4 3" },
        { x, y, color: "var(--c0)" }, { x, y, dots: true, size: 3.4, color: "var(--c0)" }] }));
    }
  }
  function startRouter() {
    const { lead, channels, weights } = content.router;
    redraw.push(() => chart($("router"), { xlabel: "hours ahead", height: 200, label: "weight of the data-driven branch", lines:
      channels.map((name, c) => ({ x: lead, y: weights.map((row) => row[c]), color: colour(c) })) }));
  }
  function startTraining() {
    const { step, loss, validation } = content.training;
    redraw.push(() => chart($("loss"), { xlabel: "step", height: 180, label: "loss", zero: true, lines: [
      { x: step, y: loss, color: "var(--c0)", width: 1.4 }] }));
    if (validation.step.length) {
      redraw.push(() => chart($("validation"), { xlabel: "step", height: 180, label: "validation", zero: true, lines:
        validation.lines.map((line, i) => ({ x: validation.step, y: line.y, color: colour(i) })).concat(
          validation.lines.map((line, i) => ({ x: validation.step, y: line.y, color: colour(i), dots: true }))) }));
    }
  }

  if (content.frames) startMap();
  if (content.errors) startErrors();
  if (content.uncertainty) startUncertainty();
  if (content.router) startRouter();
  if (content.training) startTraining();
  const all = () => redraw.forEach((draw) => draw());
  all();
  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(all); });
  document.documentElement.dataset.ready = "yes";
})();
