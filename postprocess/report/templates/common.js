  // What the page of a session and the site of all sessions share
  const byId = id => document.getElementById(id), all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const make = (tag, properties, ...parts) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...parts);
    return element;
  };
  const spoken = text => text.replaceAll('_', ' '), short = value => value == null ? '' : String(+value.toPrecision(4));

  // A time in the reader's time zone, and in UTC if that differs
  const written = (seconds, timeZone) => new Intl.DateTimeFormat('sv-SE', {dateStyle: 'short', timeStyle: 'short', timeZone}).format(1000 * seconds);
  const inBoth = seconds => written(seconds) === written(seconds, 'UTC') ? `${written(seconds)} UTC` : `${written(seconds)}, ${written(seconds, 'UTC').slice(-5)} UTC`;

  // The mirror image of the limit about the expected mean
  const mirrored = one => one.limit != null && one.expected != null ? 2 * one.expected - one.limit : null;
  const beyond = (one, value) => one.limit != null && (one.expected >= one.limit ? value < one.limit : value > one.limit);

  const color = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const axis = () => ({stroke: color('soft'), grid: {stroke: color('line'), width: 1}, ticks: {stroke: color('line')}});
  const spread = values => {
    const known = values.flat().filter(value => value != null), least = Math.min(...known), most = Math.max(...known);
    return {distr: least > 0 && most >= 30 * least ? 3 : 1};
  };
  const crosses = (plot, values) => {
    const {ctx, bbox} = plot, arm = 4 * devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = color('bad');
    ctx.lineWidth = arm / 2;
    values.forEach((value, i) => {
      const x = plot.valToPos(plot.data[0][i], 'x', true), y = plot.valToPos(value, 'y', true);
      if (value != null && x >= bbox.left && x <= bbox.left + bbox.width)
        ctx.stroke(new Path2D(`M${x - arm} ${y - arm}l${2 * arm} ${2 * arm}m${-2 * arm} 0l${2 * arm} ${-2 * arm}`));
    });
    ctx.restore();
  };

  // Without a cursor the legend of a chart has no values
  const idle = plot => plot.root.classList.toggle('idle', !(plot.cursor.left >= 0));

  // The chart of a history; `times`: of its sessions. The library is read when the first chart is drawn
  let library;
  const chart = async (box, one, times) => {
    await (library ??= readLibrary());
    const bad = one.history.map((value, i) => beyond(one, (one.own ?? one.history)[i]) ? (one.own ?? one.history)[i] : null);
    if (one.bad != null) bad[bad.length - 1] = one.bad;
    const level = value => value == null ? null : one.history.map(() => value);
    const lines = [
      [one.low ? 'median of the nodes' : 'measured', one.history, {stroke: () => color('c0'), width: 1.6, points: {show: one.history.length < 100, size: 4}}],
      [one.node, one.own, {stroke: () => color('c1'), width: 1.6}],
      ['9 of 10 nodes', one.low, {value: (_, value, __, i) => i == null ? '' : `${short(value)} to ${short(one.high[i])}`}], ['to', one.high, {class: 'none'}],
      ['expected', level(one.expected), {stroke: () => color('soft'), dash: [3, 3]}],
      ['limit', level(one.limit), {stroke: () => color('soft'), dash: [8, 4]}], ['as far on the other side', level(mirrored(one)), {class: 'none'}],
      ['beyond the limit', bad.some(value => value != null) ? bad : null, {stroke: () => color('bad'), paths: () => null}],
    ].filter(([, values]) => values);
    const place = name => lines.findIndex(([label]) => label === name) + 1;
    const band = (upper, lower, fill) => place(upper) && place(lower) ? [{series: [place(upper), place(lower)], fill}] : [];
    const ends = one.expected < one.limit ? ['limit', 'as far on the other side'] : ['as far on the other side', 'limit'];
    const drawn = plot => {
      const {ctx, bbox} = plot, scale = devicePixelRatio;
      ctx.save();
      ctx.font = `${12 * scale}px system-ui, sans-serif`;
      let line = 0;
      for (const [session, text] of one.changes ?? []) {
        const x = plot.valToPos(times[session], 'x', true), right = x > bbox.left + bbox.width / 2;
        if (x < bbox.left || x > bbox.left + bbox.width) continue;
        ctx.strokeStyle = ctx.fillStyle = color('text');
        ctx.setLineDash([4 * scale, 3 * scale]);
        ctx.stroke(new Path2D(`M${x} ${bbox.top}v${bbox.height}`));
        ctx.textAlign = right ? 'right' : 'left';
        const room = (right ? x - bbox.left : bbox.left + bbox.width - x) - 10 * scale;
        for (const part of ctx.measureText(text).width < room ? [text] : text.split(', '))
          ctx.fillText(part, x + (right ? -5 : 5) * scale, bbox.top + (14 + 15 * (line++ % 4)) * scale, room);
      }
      ctx.restore();
      crosses(plot, bad);
    };
    const days = (_, ticks, __, ___, step) => ticks.map(tick => new Date(1000 * tick)).map((time, i) => uPlot.fmtDate(
      step < 86400 ? '{D} {MMM} {HH}:{mm}' : step < 2e6 ? '{D} {MMM}' : i && time.getMonth() ? '{MMM}' : '{MMM} {YYYY}')(time));
    const plot = new uPlot({
      width: Math.max(box.clientWidth, 280), height: 240, cursor: {sync: {key: 'time'}},
      scales: {y: spread(lines.map(([, values]) => values))}, hooks: {draw: [drawn], ready: [idle], setCursor: [idle]},
      axes: [{...axis(), values: days, space: 90}, {...axis(), size: 64, label: one.unit, labelSize: 20}],
      series: [{label: 'Time', value: (_, value) => value == null ? '' : inBoth(value)}, ...lines.map(([label, , options]) => ({label, value: (_, value) => short(value), points: {show: false}, ...options}))],
      bands: [...band(...ends, () => `${color('soft')}22`), ...band('to', '9 of 10 nodes', () => `${color('c1')}40`)],
    }, [one.at.map(session => times[session]), ...lines.map(([, values]) => values)], box);
    plot.over.title = 'Drag to zoom, double-click to see all';
  };

  // Draw a chart when it is scrolled into view, or printed
  const drawings = new Map(), draw = box => {
    const task = drawings.get(box);
    drawings.delete(box);
    return task?.();
  };
  const seen = new IntersectionObserver(entries => entries.filter(entry => entry.isIntersecting).forEach(entry => draw(entry.target)), {rootMargin: '200px'});
  const whenSeen = (box, task) => { drawings.set(box, task); seen.observe(box); };
  addEventListener('beforeprint', () => [...drawings.keys()].filter(box => box.isConnected).forEach(draw));

  // A small drawing of a history: its last 90 values, or all values with lines at `places`
  const drawing = (width, height, ...paths) => `<svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" aria-hidden="true">${paths.map(([kind, path]) => `<path class="${kind}" d="${path}"/>`).join('')}</svg>`;
  const small = (one, places) => {
    const values = places ? one.history : one.history.slice(-90), far = mirrored(one), levels = [...values, one.limit ?? values[0], far ?? values[0]];
    const low = Math.min(...levels), high = Math.max(...levels);
    const y = value => Math.round(28 - 26 * (value - low) / (high - low || 1));
    const x = i => Math.round(100 * i / (values.length - 1 || 1)), line = values.map((value, i) => `${x(i)} ${y(value)}`).join(' ');
    return drawing(100, 30, ...(far == null ? [] : [['band', `M0 ${y(one.limit)}H100V${y(far)}H0`]]), ['line', `M${line}`], ...(places ?? []).map(i => ['at', `M${x(i)} 0V30`]));
  };
