"use strict";
// A graph in boxes on a canvas: only what is in sight is painted, and only as far as it can be made out.
globalThis.pageParts = globalThis.pageParts ?? {};
globalThis.pageParts.Graph = (part, { make, main, inTime, inBytes, filterButton }) => {
  const WIDE = 160, TALL = 38, MOST = 2.5, OPERATORS = 14, ROW = 26;
  const PALETTE = ["--soft", "--two", "--one", "--three", "--four", "--five", "--six"];
  const count = part.labels.length, boxes = part.box_titles.length;
  const colourName = (kind) => PALETTE[part.colours[kind] < PALETTE.length ? part.colours[kind] : 2 + (part.colours[kind] % 5)];
  const shorten = (text, length) => (text.length > length ? "…" + text.slice(1 - length) : text);
  const before = part.labels.map(() => []), after = part.labels.map(() => []), bodies = new Map();
  part.edges.forEach(([from, to], at) => {
    after[from].push(at);
    before[to].push(at);
  });
  part.sheets.forEach((sheet, at) => {
    if (sheet.owner !== null) bodies.set(sheet.owner, [...(bodies.get(sheet.owner) ?? []), at]);
  });
  const end = (at, first, all) => (at + 1 < part.sheets.length ? part.sheets[at + 1][first] : all);
  const sheetOf = (node) => part.sheets.findLastIndex((sheet) => sheet.first_node <= node);
  const sheetOfBox = (box) => part.sheets.findLastIndex((sheet) => sheet.first_box <= box);
  const most = (times) => times.reduce((most, each) => Math.max(most, each ?? 0), 0);
  const slowest = most(part.seconds), slowestBox = most(part.box_seconds);
  const texts = part.labels.map((label, at) =>
    [label, part.operators[at], ...part.makes[at].map((value) => part.values[value][0])].join("\n").toLowerCase());
  const upper = part.labels.map((label, at) => shorten(part.operators[at] || label, 21));
  const lower = part.labels.map((label, at) => (part.operators[at] ? shorten(label, 25) : ""));

  // ---- what stands around the canvas ----

  const button = (label, name, act) => {
    const made = make("button", { type: "button", "aria-label": name, title: name }, label);
    made.addEventListener("click", act);
    return made;
  };
  const search = make("input", { type: "search", placeholder: "search nodes and values", "aria-label": `search ${part.title}` });
  const found = make("span", { role: "status", class: "found" });
  const canvas = make("canvas", {
    tabindex: 0, role: "application", "aria-roledescription": "graph", "aria-describedby": "graph-keys",
    "aria-label": part.title,
  });
  const pane = make("aside", { class: "pane", role: "region", "aria-live": "polite", "aria-label": "what is chosen" });
  const which = make("select", { "aria-label": "the graph that is shown" });
  part.sheets.forEach((sheet, at) => which.append(make("option", { value: at }, sheet.title)));
  const keys = make("p", { class: "hint", id: "graph-keys" },
    "Arrows walk along the values, Page Up and Page Down through the partitions; Enter comes closer or opens a body, Escape " +
    "goes back; + and − zoom, 0 shows all, Shift with arrows moves, / searches.");
  const tools = make("div", { class: "tools" }, search,
    button("‹", "previous found", () => step(-1)), button("›", "next found", () => step(1)), found);
  const views = make("div", { class: "tools views" },
    button("+", "zoom in", () => zoom(1.4)), button("−", "zoom out", () => zoom(1 / 1.4)), button("all", "show all", () => fit()));
  const colouring = make("select", { "aria-label": "colours" },
    make("option", { value: "kind" }, "colours: who runs it"), make("option", { value: "time" }, "colours: time"));
  const up = button("↑ out of the body", "out of the body", () => leave());
  if (part.sheets.length > 1) views.append(which, up);
  if (slowestBox > 0) views.append(colouring);
  tools.append(views);

  // ---- filters ----

  const chosenKinds = new Set(), chosenOperators = new Set();
  const bar = (name, values, chosen, sign) => {
    const line = make("div", { class: "filters", role: "group", "aria-label": `filter by ${name}` }, make("span", {}, name));
    const hidden = [];
    values.forEach(([key, label, total], place) => {
      const one = filterButton(label, total);
      if (sign) one.prepend(sign(key));
      one.addEventListener("click", () => {
        const on = !chosen.delete(key);
        if (on) chosen.add(key);
        one.setAttribute("aria-pressed", String(on));
        match();
      });
      if (place >= OPERATORS) {
        one.hidden = true;
        hidden.push(one);
      }
      line.append(one);
    });
    if (hidden.length) {
      const rest = make("button", { type: "button", class: "rest" }, `${hidden.length} more…`);
      rest.addEventListener("click", () => {
        for (const one of hidden) one.hidden = false;
        hidden[0].focus();
        rest.remove();
      });
      line.append(rest);
    }
    return line;
  };
  const totals = (of) => {
    const sums = new Map();
    for (let at = 0; at < count; at++) if (part.operators[at]) sums.set(of(at), (sums.get(of(at)) ?? 0) + 1);
    return [...sums].sort((a, b) => b[1] - a[1]);
  };
  const kindBar = bar("EP", totals((at) => part.node_kinds[at]).map(([kind, total]) => [kind, part.kinds[kind], total]), chosenKinds,
    (kind) => {
      const sign = make("i", { class: "swatch" });
      sign.style.background = `var(${colourName(kind)})`;
      return sign;
    });
  const operatorBar = bar("operator", totals((at) => part.operators[at]).map(([name, total]) => [name, name, total]), chosenOperators);

  const wrap = make("div", { class: "graph" }, canvas, pane);
  const section = make("section", { "aria-label": part.title }, make("h2", {}, part.title), tools, kindBar, operatorBar, wrap, keys);
  main.append(section);

  // ---- state ----

  let sheet = 0, chosen = -1, matching = null, list = [], frame = 0;
  let scale = 1, left = 0, top = 0; // a place p of the drawing is at p * scale + left, top
  let colours = {}, fitted = true; // fitted: all is to be seen, also when the window changes
  const size = () => [canvas.clientWidth || 1000, canvas.clientHeight || 560];
  const nodes = () => [part.sheets[sheet].first_node, end(sheet, "first_node", count)];
  const request = () => {
    if (!frame) frame = requestAnimationFrame(() => {
      frame = 0;
      paint();
    });
  };
  const readColours = () => {
    const style = getComputedStyle(document.documentElement);
    for (const name of [...PALETTE, "--back", "--fore", "--line", "--shade", "--mark"]) {
      colours[name] = style.getPropertyValue(name).trim();
    }
    request();
  };
  const least = () => {
    const [width, height] = size(), { width: w, height: h } = part.sheets[sheet];
    return Math.min((width - 40) / Math.max(w, 1), (height - 40) / Math.max(h, 1), 1.1);
  };
  const hold = () => { // something of the drawing stays in sight
    const [width, height] = size(), { width: w, height: h } = part.sheets[sheet];
    fitted = false;
    left = Math.min(Math.max(left, 80 - w * scale), width - 80);
    top = Math.min(Math.max(top, 60 - h * scale), height - 60);
    request();
  };
  const fit = () => {
    const [width, height] = size(), { width: w, height: h } = part.sheets[sheet];
    scale = least();
    left = (width - w * scale) / 2;
    top = (height - h * scale) / 2;
    fitted = true;
    request();
  };
  const zoom = (factor, x = size()[0] / 2, y = size()[1] / 2) => {
    const next = Math.min(Math.max(scale * factor, least() * 0.7), MOST);
    left = x - ((x - left) * next) / scale;
    top = y - ((y - top) * next) / scale;
    scale = next;
    hold();
  };
  const move = (x, y) => {
    left += x;
    top += y;
    hold();
  };
  const centre = (x, y) => {
    const [width, height] = size();
    fitted = false;
    left = width / 2 - x * scale;
    top = height / 2 - y * scale;
    request();
  };
  const show = (next) => {
    sheet = next;
    which.value = String(next);
    up.disabled = part.sheets[next].owner === null;
    chosen = -1;
    fit();
  };
  const enter = (next) => {
    show(next);
    describe();
  };
  const leave = () => {
    const { owner } = part.sheets[sheet];
    if (owner !== null) choose(owner, true);
  };
  const boxIn = (box) => { // a partition as large as it can be, and still to be read
    const [x, y, w, h] = part.box_places[box], [width, height] = size();
    scale = Math.min(Math.max(Math.min((width - 40) / w, (height - 40) / h), least()), 1.1);
    centre(x + w / 2, y + h / 2);
  };
  const choose = (entry, near = false) => {
    const at = entry < count ? sheetOf(entry) : sheetOfBox(entry - count);
    if (at !== sheet) show(at);
    chosen = entry;
    if (entry >= count) {
      if (near) boxIn(entry - count);
    } else {
      const [x, y] = part.places[entry], [width, height] = size();
      if (near) scale = Math.max(scale, 0.9);
      const [sx, sy] = [x * scale + left, y * scale + top];
      const inside = sx > 20 && sy > 20 && sx + WIDE * scale < width - 20 && sy + TALL * scale < height - 20;
      if (near || !inside) centre(x + WIDE / 2, y + TALL / 2);
    }
    describe();
    request();
  };
  const open = () => {
    if (chosen >= 0 && bodies.has(chosen)) enter(bodies.get(chosen)[0]);
    else if (chosen >= 0) choose(chosen, true);
  };

  // ---- search and filters ----

  const match = () => {
    const wanted = search.value.trim().toLowerCase();
    list = [];
    matching = null;
    if (wanted || chosenKinds.size || chosenOperators.size) {
      matching = new Uint8Array(count);
      for (let at = 0; at < count; at++) {
        if (chosenKinds.size && !(part.operators[at] && chosenKinds.has(part.node_kinds[at]))) continue;
        if (chosenOperators.size && !chosenOperators.has(part.operators[at])) continue;
        if (wanted && !texts[at].includes(wanted)) continue;
        matching[at] = 1;
        list.push(at);
      }
    }
    found.textContent = matching ? `${list.length} found` : "";
    request();
  };
  const step = (way) => {
    if (!list.length) return;
    let place = list.indexOf(chosen);
    if (place < 0) place = way > 0 ? list.findIndex((at) => at >= nodes()[0]) - 1 : 0;
    choose(list[(place + way + list.length) % list.length], true);
  };
  search.addEventListener("input", match);
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    else if (event.key === "ArrowDown") canvas.focus();
    else if (event.key === "Escape") {
      search.value = "";
      match();
      canvas.focus();
    } else return;
    event.preventDefault();
  });

  // ---- what is chosen, in words ----

  const link = (entry, label) => {
    const made = make("button", { type: "button", class: "link" }, label);
    made.addEventListener("click", () => choose(entry, true));
    return made;
  };
  const value = (at, ends) => {
    const [name, type, bytes] = part.values[at];
    const line = make("li", {}, make("b", {}, name), ` ${type}, ${bytes === null ? "size unknown" : inBytes(bytes)}`);
    for (const entry of ends.slice(0, ROW)) line.append(link(entry, `${part.operators[entry]} ${part.labels[entry]}`.trim()));
    if (ends.length > ROW) line.append(`and ${ends.length - ROW} more`);
    return line;
  };
  const values = (heading, all, ends) => {
    if (!all.length) return [];
    const lines = make("ul");
    for (const at of all.slice(0, ROW)) lines.append(value(at, ends(at)));
    if (all.length > ROW) lines.append(make("li", {}, `and ${all.length - ROW} more`));
    return [make("h4", {}, heading), lines];
  };
  const describe = () => {
    const parts = [];
    if (chosen < 0) {
      const [from, to] = nodes();
      let real = 0;
      for (let at = from; at < to; at++) if (part.operators[at]) real++;
      parts.push(make("h3", {}, part.sheets[sheet].title),
        make("p", {}, `${real} node${real === 1 ? "" : "s"}. Choose one, or a partition, to see who runs it and why.`));
    } else if (chosen >= count) {
      const box = chosen - count;
      parts.push(make("h3", {}, part.box_titles[box]));
      for (const line of part.box_details[box]) parts.push(make("p", {}, line));
    } else {
      parts.push(make("h3", {}, `${part.operators[chosen]} ${part.labels[chosen]}`.trim()));
      parts.push(make("p", {}, link(count + part.node_boxes[chosen], part.box_titles[part.node_boxes[chosen]])));
      for (const note of part.notes[chosen]) parts.push(make("p", {}, part.texts[note]));
      if (part.seconds[chosen] !== null) parts.push(make("p", {}, `${inTime(part.seconds[chosen] * 1e9)} of a run`));
      for (const body of bodies.get(chosen) ?? []) {
        const made = make("button", { type: "button" }, `open ${part.sheets[body].title}`);
        made.addEventListener("click", () => enter(body));
        parts.push(make("p", {}, made));
      }
      const ends = (edges, side) => (at) => [...new Set(edges.map((edge) => part.edges[edge]).filter((edge) => edge[2] === at).map((edge) => edge[side]))];
      parts.push(...values("reads", part.reads[chosen], ends(before[chosen], 0)));
      parts.push(...values("makes", part.makes[chosen], ends(after[chosen], 1)));
    }
    pane.replaceChildren(...parts);
    pane.scrollTop = 0;
  };

  // ---- painting ----

  const path = (context, at) => {
    const [from, to] = part.edges[at], [ax, ay] = part.places[from], [bx, by] = part.places[to];
    let x = ax + WIDE / 2, y = ay + TALL;
    context.moveTo(x, y);
    const bend = (nx, ny) => {
      const half = ny > y ? (ny - y) / 2 : Math.min(60, Math.abs(nx - x) / 3 + 20);
      context.bezierCurveTo(x, y + half, nx, ny - half, nx, ny);
      [x, y] = [nx, ny];
    };
    for (const [nx, ny] of part.bends[at] ?? []) bend(nx, ny);
    bend(bx + WIDE / 2, by);
  };
  const crosses = part.edges.map(([from, to]) => part.node_boxes[from] !== part.node_boxes[to]);
  const heat = (at) => (part.seconds[at] ? 0.12 + 0.88 * Math.sqrt(part.seconds[at] / slowest) : 0.04);
  const paint = () => {
    const ratio = devicePixelRatio || 1, [width, height] = size();
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const context = canvas.getContext("2d");
    const world = () => context.setTransform(scale * ratio, 0, 0, scale * ratio, left * ratio, top * ratio);
    const screen = () => context.setTransform(ratio, 0, 0, ratio, 0, 0);
    screen();
    context.globalAlpha = 1;
    context.fillStyle = colours["--back"];
    context.fillRect(0, 0, width, height);
    world();
    const x0 = -left / scale, y0 = -top / scale, x1 = (width - left) / scale, y1 = (height - top) / scale;
    const [from, to] = nodes();
    const firstBox = part.sheets[sheet].first_box, lastBox = end(sheet, "first_box", boxes);
    const firstEdge = part.sheets[sheet].first_edge, lastEdge = end(sheet, "first_edge", part.edges.length);
    const byTime = colouring.value === "time", pixel = 1 / scale, seen = [];
    for (let box = firstBox; box < lastBox; box++) {
      const [x, y, w, h] = part.box_places[box];
      if (x > x1 || y > y1 || x + w < x0 || y + h < y0) continue;
      seen.push(box);
      context.strokeStyle = colours[colourName(part.box_kinds[box])];
      context.fillStyle = byTime ? colours["--mark"] : context.strokeStyle;
      context.globalAlpha = byTime ? 0.02 + 0.5 * Math.sqrt((part.box_seconds[box] ?? 0) / slowestBox) : 0.1;
      context.fillRect(x, y, w, h);
      context.globalAlpha = chosen === count + box ? 1 : 0.55;
      context.lineWidth = (chosen === count + box ? 3 : 1) * pixel;
      context.strokeRect(x, y, w, h);
    }
    // Lines that nobody can follow are left away; those between partitions are always there.
    const fine = TALL * scale >= 4;
    context.strokeStyle = colours["--soft"];
    for (const border of [false, true]) {
      if (!fine && !border) continue;
      context.beginPath();
      for (let at = firstEdge; at < lastEdge; at++) {
        if (crosses[at] !== border) continue;
        const a = part.places[part.edges[at][0]], b = part.places[part.edges[at][1]];
        if (Math.min(a[0], b[0]) > x1 || Math.max(a[0], b[0]) + WIDE < x0) continue;
        if (Math.min(a[1], b[1]) > y1 || Math.max(a[1], b[1]) + TALL < y0) continue;
        path(context, at);
      }
      context.globalAlpha = border ? 0.85 : 0.6;
      context.lineWidth = Math.max(border ? 1.6 : 1, 0.7 * pixel);
      context.stroke();
    }
    const named = TALL * scale >= 15, groups = new Map();
    for (let at = from; at < to; at++) {
      const [x, y] = part.places[at];
      if (x > x1 || y > y1 || x + WIDE < x0 || y + TALL < y0) continue;
      const bright = !matching || matching[at];
      const key = part.node_kinds[at] * 2 + (bright ? 1 : 0);
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(at);
    }
    for (const [key, members] of groups) {
      const colour = colours[byTime ? "--mark" : colourName(key >> 1)], bright = key & 1;
      if (named || byTime) { // lines do not show through
        context.globalAlpha = bright ? 1 : 0.3;
        context.fillStyle = colours["--back"];
        for (const at of members) context.fillRect(part.places[at][0], part.places[at][1], WIDE, TALL);
      }
      context.fillStyle = colour;
      context.globalAlpha = (bright ? 1 : 0.25) * (named ? 0.16 : 0.75);
      for (const at of members) {
        if (byTime) context.globalAlpha = (bright ? 1 : 0.25) * heat(at);
        context.fillRect(part.places[at][0], part.places[at][1], WIDE, TALL);
      }
      if (!named) continue;
      context.globalAlpha = bright ? 1 : 0.25;
      if (!byTime) for (const at of members) context.fillRect(part.places[at][0], part.places[at][1], 4, TALL);
      context.fillStyle = colours["--fore"];
      context.font = "600 13px system-ui, sans-serif";
      for (const at of members) context.fillText(upper[at], part.places[at][0] + 10, part.places[at][1] + (lower[at] ? 16 : 24), WIDE - 16);
      context.font = "11px system-ui, sans-serif";
      for (const at of members) {
        const [x, y] = part.places[at];
        if (lower[at]) context.fillText(lower[at], x + 10, y + 31, WIDE - 16);
        if (bodies.has(at)) context.fillText("▸ body", x + WIDE - 44, y + 15);
      }
    }
    if (chosen >= 0 && chosen < count) {
      context.globalAlpha = 1;
      context.strokeStyle = context.fillStyle = colours["--mark"];
      context.lineWidth = Math.max(2, 1.5 * pixel);
      context.beginPath();
      for (const at of [...before[chosen], ...after[chosen]].slice(0, 400)) path(context, at);
      context.stroke();
      context.lineWidth = 3 * Math.max(pixel, 1);
      const [x, y] = part.places[chosen], grown = Math.max(0, 5 * pixel - TALL) / 2;
      context.strokeRect(x - 2 - grown, y - 2 - grown, WIDE + 4 + 2 * grown, TALL + 4 + 2 * grown);
    }
    if (TALL * scale >= 18) labelBorders(context, firstEdge, lastEdge, x0, y0, x1, y1);
    if (matching && !named) marks(context, from, to, x0, y0, x1, y1, pixel);
    screen();
    context.font = "600 13px system-ui, sans-serif";
    for (const box of seen) title(context, box, width, height);
  };
  const labelBorders = (context, firstEdge, lastEdge, x0, y0, x1, y1) => { // how much comes in, at the reader
    context.globalAlpha = 1;
    context.font = "11px system-ui, sans-serif";
    const told = new Set();
    for (let at = firstEdge; at < lastEdge; at++) {
      if (!crosses[at]) continue;
      const [, to, of] = part.edges[at], [x, y] = part.places[to], place = to;
      if (told.has(place) || x > x1 || y > y1 || x + WIDE < x0 || y + TALL < y0) continue;
      told.add(place);
      const all = before[to].filter((edge) => crosses[edge]), bytes = part.values[of][2];
      const whole = all.length > 1 ? `${all.length} values` : bytes === null ? part.values[of][1] : inBytes(bytes);
      const label = whole.length > 24 ? `${whole.slice(0, 23)}…` : whole;
      const wide = context.measureText(label).width;
      context.fillStyle = colours["--back"];
      context.fillRect(x + WIDE / 2 + 3, y - 15, wide + 6, 13);
      context.fillStyle = colours["--fore"];
      context.fillText(label, x + WIDE / 2 + 6, y - 5);
    }
  };
  const marks = (context, from, to, x0, y0, x1, y1, pixel) => { // what is found must be seen from afar, too
    context.globalAlpha = 1;
    context.fillStyle = colours["--mark"];
    const wide = Math.max(WIDE, 4 * pixel), tall = Math.max(TALL, 3 * pixel);
    for (let at = from; at < to; at++) {
      const [x, y] = part.places[at];
      if (matching[at] && x <= x1 && y <= y1 && x + WIDE >= x0 && y + TALL >= y0) context.fillRect(x, y, wide, tall);
    }
  };
  const title = (context, box, width, height) => {
    const [x, y, w, h] = part.box_places[box];
    const sx = Math.max(x * scale + left, 0), sy = Math.max(y * scale + top, 0);
    const wide = Math.min((x + w) * scale + left, width) - sx, tall = Math.min((y + h) * scale + top, height) - sy;
    if (wide < 46 || tall < 18) return;
    const letters = Math.floor((wide - 12) / 7.2), whole = part.box_titles[box];
    const text = whole.length > letters ? whole.slice(0, Math.max(letters - 1, 1)) + "…" : whole;
    context.globalAlpha = 0.85;
    context.fillStyle = colours["--back"];
    context.fillRect(sx + 2, sy + 2, Math.min(context.measureText(text).width + 10, wide - 3), 18);
    context.globalAlpha = 1;
    context.fillStyle = colours[colourName(part.box_kinds[box])];
    context.fillText(text, sx + 6, sy + 15, wide - 8);
  };

  // ---- pointer and keys ----

  const under = (event) => {
    const rect = canvas.getBoundingClientRect();
    const x = (event.clientX - rect.left - left) / scale, y = (event.clientY - rect.top - top) / scale;
    const [from, to] = nodes();
    if (TALL * scale >= 3) {
      for (let at = from; at < to; at++) {
        const [nx, ny] = part.places[at];
        if (x >= nx && y >= ny && x <= nx + WIDE && y <= ny + TALL) return at;
      }
    }
    for (let box = part.sheets[sheet].first_box; box < end(sheet, "first_box", boxes); box++) {
      const [bx, by, w, h] = part.box_places[box];
      if (x >= bx && y >= by && x <= bx + w && y <= by + h) return count + box;
    }
    return -1;
  };
  const pointers = new Map();
  let moved = false;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const rect = canvas.getBoundingClientRect(), lines = event.deltaMode ? 30 : 1;
    const much = Math.max(-240, Math.min(240, event.deltaY * lines));
    zoom(Math.exp(-much * 0.0022), event.clientX - rect.left, event.clientY - rect.top);
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => {
    if (!pointers.size) moved = false;
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = pointers.get(event.pointerId);
    if (!last) {
      canvas.style.cursor = under(event) >= 0 ? "pointer" : "grab";
      return;
    }
    const dx = event.clientX - last[0], dy = event.clientY - last[1];
    if (!moved && Math.hypot(dx, dy) < 4) return;
    moved = true;
    const other = [...pointers].find(([id]) => id !== event.pointerId)?.[1];
    if (other) { // two fingers
      const rect = canvas.getBoundingClientRect();
      const far = (x, y) => Math.max(Math.hypot(x - other[0], y - other[1]), 1);
      zoom(far(event.clientX, event.clientY) / far(...last), other[0] - rect.left, other[1] - rect.top);
    } else move(dx, dy);
    pointers.set(event.pointerId, [event.clientX, event.clientY]);
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId) || event.type === "pointercancel" || moved || pointers.size) return;
    const entry = under(event);
    if (entry >= 0) return choose(entry);
    chosen = -1;
    describe();
    request();
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("dblclick", (event) => {
    const entry = under(event);
    if (entry >= 0) {
      choose(entry);
      open();
    }
  });
  const beside = (way) => { // the nearest in the same row
    const [x, y] = part.places[chosen], [from, to] = nodes();
    let best = -1;
    for (let at = from; at < to; at++) {
      const [nx, ny] = part.places[at];
      if (Math.abs(ny - y) > TALL || (nx - x) * way <= 0) continue;
      if (best < 0 || Math.abs(nx - x) < Math.abs(part.places[best][0] - x)) best = at;
    }
    return best;
  };
  const walk = (key) => {
    const [from, to] = nodes();
    if (from === to) return;
    if (chosen < 0) { // the first as one reads
      const before = ([ax, ay], [bx, by]) => ay < by || (ay === by && ax < bx);
      let best = from;
      for (let at = from; at < to; at++) if (before(part.places[at], part.places[best])) best = at;
      return choose(best, true);
    }
    if (chosen >= count) { // out of a partition, into its first node
      const node = part.node_boxes.indexOf(chosen - count);
      return node >= 0 ? choose(node, true) : undefined;
    }
    const next = {
      ArrowUp: () => part.edges[before[chosen][0]]?.[0] ?? -1, ArrowDown: () => part.edges[after[chosen][0]]?.[1] ?? -1,
      ArrowLeft: () => beside(-1), ArrowRight: () => beside(1),
    }[key]();
    if (next >= 0) choose(next);
  };
  const turn = (way) => {
    const from = part.sheets[sheet].first_box, to = end(sheet, "first_box", boxes);
    if (from === to) return;
    const now = chosen < 0 ? (way > 0 ? from - 1 : to) : chosen < count ? part.node_boxes[chosen] : chosen - count;
    choose(count + Math.min(Math.max(now + way, from), to - 1), true);
  };
  const back = () => {
    if (chosen >= 0) {
      chosen = -1;
      describe();
      request();
    } else if (part.sheets[sheet].owner !== null) leave();
    else fit();
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const shift = { ArrowLeft: [90, 0], ArrowRight: [-90, 0], ArrowUp: [0, 90], ArrowDown: [0, -90] }[event.key];
    const act = {
      "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), "0": fit, Home: fit, Enter: open, Escape: back,
      PageDown: () => turn(1), PageUp: () => turn(-1),
    }[event.key] ?? (shift && (event.shiftKey ? () => move(...shift) : () => walk(event.key)));
    if (!act) return;
    event.preventDefault();
    act();
  });
  which.addEventListener("change", () => enter(Number(which.value)));
  colouring.addEventListener("change", request);
  document.getElementById("theme").addEventListener("click", readColours);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readColours);
  new ResizeObserver(() => {
    if (fitted) fit();
    request();
  }).observe(canvas);
  readColours();
  enter(0);
  return (entry) => {
    choose(entry, true);
    wrap.scrollIntoView({ block: "nearest" });
  };
};
