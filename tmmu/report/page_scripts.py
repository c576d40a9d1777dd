"""The JavaScript of a map in a page: what its hover, search, clicks and keys do.

spec: RP1.5, RP1.6, RP1.10 to RP1.13
"""

from __future__ import annotations

BYTES = """
    const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']; let k = 0, v = value;
    while (v >= 1024 && k < 4) { v /= 1024; k += 1; }
    return (k ? v.toFixed(2) : v) + ' ' + units[k];
"""
TICKS = BYTES.replace("value", "tick").replace("v.toFixed(2)", "Number(v.toFixed(2))")
STEP = "return value < 0 ? '–' : (value + (steps.data.name.length ? ' ' + steps.data.name[value] : ''));"
NAMES = """
    const all = names.data.all[value].split('\\n');
    return all.slice(0, 6).join(', ') + (all.length > 6 ? ' and ' + (all.length - 6) + ' more' : '');
"""
SEARCH = """
    const text = cb_obj.value.trim(), all = names.data.all, found = [];
    if (text) for (let k = 0; k < all.length; k++) if (all[k].includes(text)) found.push(k);
    const exact = found.filter(k => all[k].split('\\n').includes(text)), rows = exact.length ? exact : found;
    boxes.selected.indices = rows;
    matches.text = text ? rows.length + (rows.length == 1 ? ' storage' : ' storages') : '';
    if (rows.length) {
        const d = boxes.data, of = (key, f) => rows.map(k => d[key][k]).reduce((a, b) => f(a, b));
        const left = of('left', Math.min), right = of('right', Math.max);
        const low = of('bottom', Math.min), high = of('top', Math.max);
        const across = Math.max(2, right - left), up = Math.max(1, high - low);
        x.setv({start: Math.max(x.reset_start, left - across), end: Math.min(x.reset_end, right + across)});
        y.setv({start: Math.max(y.reset_start, low - up), end: Math.min(y.reset_end, high + up)});
    }
"""
"""The found storages take the middle third of the view, or more of it at an edge of the arena."""
SIGHT = """
    if (view.waits) return;
    view.waits = setTimeout(() => {
        view.waits = null;
        const d = boxes.data, rows = [...boxes.selected.indices], taken = new Set(rows);
        for (let k = 0; k < d.left.length && rows.length < drawn; k++)
            if (d.right[k] > x.start && d.left[k] < x.end && d.top[k] > y.start && d.bottom[k] < y.end && !taken.has(k))
                rows.push(k);
        if (d.left.length > drawn) view.filter.indices = rows;
        const across = plot.inner_width / (x.end - x.start), up = plot.inner_height / (y.end - y.start);
        const made = {x: [], y: [], text: [], row: []};
        for (const k of rows) {
            const left = Math.max(d.left[k], x.start), right = Math.min(d.right[k], x.end);
            const low = Math.max(d.bottom[k], y.start), high = Math.min(d.top[k], y.end);
            const full = names.data.all[k].split('\\n')[0], most = ((right - left) * across - 6) / 6.5;
            const name = full.length <= most ? full : full.split(/[/.]/).pop();
            if ((high - low) * up < 14 || name.length > most || !name) continue;
            made.x.push((left + right) / 2); made.y.push((low + high) / 2); made.text.push(name); made.row.push(k);
        }
        made.ink = made.row.map(k => d['ink_' + colours.value][k]);
        labels.data = made;
    }, 80);
"""
"""Choose the largest storages in view, and write the names that fit into their rectangles."""
RECOLOUR = """
    const key = cb_obj.value;
    quads.glyph.fill_color = {field: 'by_' + key}; quads.glyph.line_color = {field: 'by_' + key};
    for (const legend of legends) legend.visible = legend.name == key;
    for (const area of areas) area.visible = area.name == key;
    labels.data = {...labels.data, ink: labels.data.row.map(k => boxes.data['ink_' + key][k])};
"""
TAP = "if (cb_obj.x >= 0 && cb_obj.x <= last + 1) held.location = Math.min(last, Math.floor(cb_obj.x)) + 0.5;"
LIST = """
    held.visible = held.location != peak + 0.5;
    if (!held.visible) { listing.text = at_peak; return; }
    const step = Math.floor(held.location), d = boxes.data, rows = [];
    for (let k = 0; k < d.left.length; k++) if (d.left[k] <= step && step < d.right[k]) rows.push(k);
    rows.sort((a, b) => d.bytes[b] - d.bytes[a] || a - b);
    const size = value => { BYTES };
    const escape = text => text.replace(/[&<>"']/g, c => '&#' + c.charCodeAt(0) + ';');
    const named = step => step < 0 ? 'the caller' : escape(steps.data.name[step] ?? 'step ' + step);
    const total = rows.reduce((sum, k) => sum + d.bytes[k], 0);
    const line = k => `<tr><td style="text-align:right;padding-right:1em">${size(d.bytes[k])}</td>` +
        `<td>${escape(names.data.all[k].split('\\n')[0])}</td>` +
        `<td style="padding-left:1em">steps ${d.left[k]} to ${d.last[k]}</td>` +
        `<td style="padding-left:1em">written by ${named(d.producer[k])}</td></tr>`;
    const label = steps.data.name.length ? ` (${escape(steps.data.name[step])})` : '';
    const most = left_out ? ' of those in this page' : '';
    listing.text = `<b>${size(total)} are live at step ${step}</b>${label}, ${rows.length} ` +
        `${rows.length == 1 ? 'storage' : 'storages'}${most}, the largest first (Escape returns to the peak):` +
        `<div style="max-height:16em;overflow:auto"><table>${rows.slice(0, 500).map(line).join('')}</table></div>` +
        (rows.length > 500 ? `and ${rows.length - 500} smaller` : '');
""".replace("BYTES", BYTES.strip())
"""List what is live at the held step."""
READY = """
    const media = window.matchMedia('(prefers-color-scheme: dark)');
    const paint = () => {
        const [page, ink, grid] = media.matches ? ['#16181c', '#e6e6e6', '#3a3f47'] : ['#ffffff', '#222222', '#dddddd'];
        for (const plot of plots) {
            plot.setv({background_fill_color: page, border_fill_color: page, outline_line_color: grid});
            for (const part of [...plot.below, ...plot.left]) if (part.major_label_text_color !== undefined)
                part.setv({major_label_text_color: ink, axis_label_text_color: ink, axis_line_color: grid,
                    major_tick_line_color: ink, minor_tick_line_color: grid});
            for (const part of plot.center) if (part.grid_line_color !== undefined) part.grid_line_color = grid;
        }
        for (const picture of pictures) picture.glyph.color_mapper.palette = media.matches ? darks : greys;
    };
    media.addEventListener('change', paint); paint();
    let current = null;
    spans.forEach((span, k) => span.properties.location.change.connect(() => { current = k; }));
    tabs.properties.active.change.connect(() => { current = null; });
    window.addEventListener('keydown', event => {
        const path = event.composedPath();
        if (path.some(part => ['INPUT', 'SELECT', 'TEXTAREA'].includes(part.tagName))) return;
        const k = current ?? tabs.active, held = spans[k], x = ranges[k], last = lasts[k];
        const zoom = by => { const half = (x.end - x.start) / 2 * by;
            const middle = held.visible ? held.location : (x.start + x.end) / 2;
            x.setv({start: Math.max(x.reset_start, middle - half), end: Math.min(x.reset_end, middle + half)}); };
        const keys = {
            ArrowLeft: () => held.location = Math.max(0, Math.floor(held.location) - 1) + 0.5,
            ArrowRight: () => held.location = Math.min(last, Math.floor(held.location) + 1) + 0.5,
            Escape: () => held.location = peaks[k] + 0.5,
            '+': () => zoom(0.5), '-': () => zoom(2),
            '0': () => x.setv({start: x.reset_start, end: x.reset_end}),
        };
        if (keys[event.key] && !event.ctrlKey && !event.metaKey && !event.altKey) {
            keys[event.key](); event.preventDefault();
        }
    });
"""
"""Follow the colours of the system, and take keys for the arena that was clicked last, or else the first plan's."""
