(async () => {
  const byId = id => document.getElementById(id), all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const make = (tag, properties, ...parts) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...parts);
    return element;
  };
  const unpack = async script => {
    const bytes = Uint8Array.from(atob(script.textContent), c => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).text();
  };
  const spoken = text => text.replaceAll('_', ' '), short = value => value == null ? '' : String(+value.toPrecision(4));
  const data = JSON.parse(await unpack(byId('data')));
  for (const rows of all('[data-rows]')) byId(rows.dataset.rows).tBodies[0].insertAdjacentHTML('beforeend', await unpack(rows));
  const idOf = link => link?.hash.match(/^#m(\d+)$/)?.[1];

  // As far above the expected mean as the limit is below it, or the other way round
  const mirrored = one => one.limit != null && one.expected != null ? 2 * one.expected - one.limit : null;
  const beyond = (one, value) => one.limit != null && (one.expected >= one.limit ? value < one.limit : value > one.limit);

  // The charts of histories; their library is read when the first is drawn
  let library;
  const chart = async (box, one) => {
    library ??= unpack(byId('uplot')).then(text => document.head.append(make('script', {textContent: text})));
    await library;
    const style = getComputedStyle(document.documentElement), color = name => style.getPropertyValue(`--${name}`).trim();
    const bad = one.history.map((value, i) => beyond(one, (one.own ?? one.history)[i]) ? (one.own ?? one.history)[i] : null);
    if (one.bad != null) bad[bad.length - 1] = one.bad;
    const level = value => value == null ? null : one.history.map(() => value);
    const lines = [
      [one.own ? 'median of the nodes' : 'measured', one.history, {stroke: color('c0'), width: 1.6, points: {show: one.history.length < 100, size: 4}}],
      [one.node, one.own, {stroke: color('c1'), width: 1.6}],
      ['9 of 10 nodes', one.low, {value: (_, value, __, i) => i == null ? '' : `${short(value)} to ${short(one.high[i])}`}], ['to', one.high, {class: 'none'}],
      ['expected', level(one.expected), {stroke: color('soft'), dash: [3, 3]}],
      ['limit', level(one.limit), {stroke: color('soft'), dash: [8, 4]}], ['as far on the other side', level(mirrored(one)), {class: 'none'}],
      ['beyond the limit', bad.some(value => value != null) ? bad : null, {stroke: color('bad'), paths: () => null}],
    ].filter(([, values]) => values);
    const place = name => lines.findIndex(([label]) => label === name) + 1;
    const band = (upper, lower, fill) => place(upper) && place(lower) ? [{series: [place(upper), place(lower)], fill}] : [];
    const ends = one.expected < one.limit ? ['limit', 'as far on the other side'] : ['as far on the other side', 'limit'];
    const every = lines.flatMap(([, values]) => values.filter(value => value != null));
    const logarithmic = Math.min(...every) > 0 && Math.max(...every) >= 30 * Math.min(...every);
    const axis = {stroke: color('soft'), grid: {stroke: color('line'), width: 1}, ticks: {stroke: color('line')}};
    const drawn = plot => {
      const {ctx, bbox} = plot, scale = devicePixelRatio;
      ctx.save();
      ctx.font = `${12 * scale}px system-ui, sans-serif`;
      (one.changes ?? []).forEach(([session, text], i) => {
        const x = plot.valToPos(data.sessions[session], 'x', true), right = x > bbox.left + bbox.width / 2;
        if (x < bbox.left || x > bbox.left + bbox.width) return;
        ctx.strokeStyle = ctx.fillStyle = color('text');
        ctx.setLineDash([4 * scale, 3 * scale]);
        ctx.stroke(new Path2D(`M${x} ${bbox.top}v${bbox.height}`));
        ctx.textAlign = right ? 'right' : 'left';
        ctx.fillText(text, x + (right ? -5 : 5) * scale, bbox.top + (14 + 15 * (i % 3)) * scale);
      });
      ctx.setLineDash([]);
      ctx.strokeStyle = color('bad');
      ctx.lineWidth = 2 * scale;
      bad.forEach((value, i) => {
        const x = plot.valToPos(plot.data[0][i], 'x', true), y = plot.valToPos(value, 'y', true), arm = 4 * scale;
        if (value != null && x >= bbox.left && x <= bbox.left + bbox.width)
          ctx.stroke(new Path2D(`M${x - arm} ${y - arm}l${2 * arm} ${2 * arm}m${-2 * arm} 0l${2 * arm} ${-2 * arm}`));
      });
      ctx.restore();
    };
    const utc = time => uPlot.tzDate(new Date(1000 * time), 'Etc/UTC');
    const days = (_, times, __, ___, step) => times.map(utc).map((time, i) => uPlot.fmtDate(
      step < 86400 ? '{HH}:{mm}' : step < 2e6 ? '{D} {MMM}' : i && time.getMonth() ? '{MMM}' : '{MMM} {YYYY}')(time));
    const plot = new uPlot({
      width: Math.max(box.clientWidth, 280), height: 240, tzDate: utc,
      scales: {y: {distr: logarithmic ? 3 : 1}}, hooks: {draw: [drawn]},
      axes: [{...axis, values: days}, {...axis, size: 64, label: one.unit, labelSize: 20}],
      series: [{label: 'UTC', value: '{YYYY}-{MM}-{DD} {HH}:{mm}'}, ...lines.map(([label, , options]) => ({label, value: (_, value) => short(value), points: {show: false}, ...options}))],
      bands: [...band(...ends, `${color('c0')}18`), ...band('to', '9 of 10 nodes', `${color('c1')}40`)],
    }, [one.at.map(session => data.sessions[session]), ...lines.map(([, values]) => values)], box);
    plot.over.title = 'Drag to zoom, double-click to see all';
  };

  // Small drawings: a history in the overview, the samples of a metric in its row
  const drawing = (width, height, ...paths) => `<svg viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" aria-hidden="true">${paths.map(([kind, path]) => `<path class="${kind}" d="${path}"/>`).join('')}</svg>`;
  const small = one => {
    const values = one.history.slice(-90), far = mirrored(one), levels = [...values, one.limit ?? values[0], far ?? values[0]];
    const low = Math.min(...levels), high = Math.max(...levels);
    const y = value => Math.round(28 - 26 * (value - low) / (high - low || 1));
    const line = values.map((value, i) => `${Math.round(100 * i / (values.length - 1))} ${y(value)}`).join(' ');
    return drawing(100, 30, ...(far == null ? [] : [['band', `M0 ${y(one.limit)}H100V${y(far)}H0`]]), ['line', `M${line}`]);
  };
  const strip = one => {
    const values = one.values ?? Object.values(one.jobs?.[0]?.[2] ?? {}).flatMap(text => text.split(' ').map(Number)).filter(Number.isFinite);
    const levels = [...values, one.limit ?? values[0], one.expected ?? values[0]], low = Math.min(...levels), high = Math.max(...levels);
    const x = value => 2 + 2.4 * Math.round(high > low ? 40 * (value - low) / (high - low) : 20), ticks = {};
    for (const value of values) ticks[x(value)] = (ticks[x(value)] ?? 0) + 1;
    const most = Math.max(...Object.values(ticks)), across = level => level == null ? '' : `M${x(level)} 0v14`;
    const path = Object.entries(ticks).map(([place, n]) => `M${place} 14v${-4 - 8 * n / most}`).join('');
    return values.length ? drawing(100, 14, ['samples', path], ['e', across(one.expected)], ['l', across(one.limit)]) : '';
  };
  for (const link of all('.mini')) {
    const one = data.metrics[idOf(link)];
    link.title = `${one.name}: ${[spoken(one.verdict), one.deviation].filter(Boolean).join(', ')}`;
    if (one.history) link.innerHTML = small(one);
  }
  for (const row of byId('verdicts').tBodies[0].rows) row.cells[10].innerHTML = strip(data.metrics[idOf(row.cells[3].firstElementChild)]);

  // Details of the metric or case that the address names; closed, the address is that of before, and the page stays
  const dialog = byId('details');
  let before = '';
  const facts = (of = {}) => make('dl', {}, ...Object.entries(of).filter(([, text]) => text).flatMap(([name, text]) => [make('dt', {}, name), make('dd', {}, text)]));
  const verdict = name => make('span', {className: `v ${name}`}, spoken(name));
  const job = ([name, id, nodes], several) => {
    const of = data.cases[id], samples = Object.entries(nodes).map(([node, values]) => `${node}: ${values}`).join('; ');
    return make('p', {}, ...(several ? [verdict(name), ' '] : []), make('a', {href: `#c${id}`}, `Job ${of.job}`),
      ...(of.output ? [', ', make('a', {href: of.output}, 'its output')] : []), ' ', make('span', {className: 'raw'}, samples || 'no sample'));
  };
  const open = () => {
    const [, kind, id] = location.hash.match(/^#([mc])(\d+)$/) ?? [], one = data[kind === 'm' ? 'metrics' : 'cases'][id];
    if (!one) return;
    const box = make('figure', {});
    byId('named').textContent = one.name;
    dialog.lastElementChild.replaceChildren(...(kind === 'c' ? [facts(one.facts), ...(one.output ? [make('a', {href: one.output}, 'Its output')] : [])] : [
      make('p', {}, verdict(one.verdict), ` on ${one.where}${one.cause ? `: ${one.cause}` : ''}`), facts(one.facts), box,
      ...(one.jobs ?? []).map(of => job(of, one.jobs.length > 1)),
      ...(one.more ? [make('p', {className: 'u'}, `${one.more} more jobs: plumbline compare --format csv`)] : []),
    ]));
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
    if (one.history) return chart(box, one);
  };
  dialog.addEventListener('close', () => history.replaceState(null, '', before || location.pathname + location.search));
  dialog.addEventListener('click', event => {
    if (event.target !== dialog && !event.target.closest('.close')) return;
    event.preventDefault();
    dialog.close();
  });

  // A table is searched, and sorted by a click on a title; the address keeps both
  const lists = Object.fromEntries(all('.filters').map(filters => {
    const [table] = all('table', filters.nextElementSibling), rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells];
    const texts = new Map(rows.map(row => [row, row.textContent.toLowerCase()])), first = [...rows], section = filters.dataset.of;
    const [search] = all('input', filters), [choice] = all('select', filters), [more] = all('button', filters), [output] = all('output', filters);
    const most = section === 'nodes' ? 40 : Infinity;
    let sorted = '', whole = false;
    const show = () => {
      const words = search.value.toLowerCase().split(/\s+/), wanted = choice?.value ? spoken(choice.value) : '';
      const fits = rows.filter(row => (!wanted || row.cells[0].textContent === wanted) && words.every(word => texts.get(row).includes(word)));
      const shown = new Set(whole ? fits : fits.slice(0, most));
      for (const row of rows) row.hidden = !shown.has(row);
      output.textContent = `${shown.size} of ${rows.length} ${section}`;
      more.hidden = shown.size === fits.length;
    };
    const sort = by => {
      const column = heads.findIndex(head => head.textContent === by.replace(/^-/, '')), head = heads[column];
      for (const other of heads) other.removeAttribute('aria-sort');
      const value = row => row.cells[column].dataset.v ?? row.cells[column].textContent, sign = by.startsWith('-') ? -1 : 1;
      const order = (x, y) => !x || !y ? !x - !y : sign * (head.matches('.r') ? parseFloat(x) - parseFloat(y) : x.localeCompare(y));
      rows.splice(0, rows.length, ...(head ? [...first].sort((x, y) => order(value(x), value(y))) : first));
      head?.setAttribute('aria-sort', sign === 1 ? 'ascending' : 'descending');
      table.tBodies[0].append(...rows);
      sorted = by;
    };
    const keep = () => {
      const state = new URLSearchParams(Object.entries({q: search.value, verdict: choice?.value, sort: sorted}).filter(([, value]) => value));
      before = `#${section}${`${state}` ? `?${state}` : ''}`;
      history.replaceState(null, '', before);
      show();
    };
    search.addEventListener('input', keep);
    choice?.addEventListener('change', keep);
    more.addEventListener('click', () => { whole = true; show(); });
    for (const head of heads) {
      if (head.textContent === 'Samples') continue;
      const name = head.textContent, button = make('button', {}, name);
      head.replaceChildren(button);
      button.addEventListener('click', () => {
        sort(sorted === name || (sorted !== `-${name}` && head.matches('.worst')) ? `-${name}` : name);
        keep();
      });
    }
    filters.hidden = false;
    show();
    return [section, state => {
      search.value = state.get('q') ?? '';
      if (choice) choice.value = state.get('verdict') ?? '';
      sort(state.get('sort') ?? '');
      show();
      byId(section).scrollIntoView();
    }];
  }));
  const follow = () => {
    const [section, state] = location.hash.slice(1).split('?');
    if (!/^[mc]\d+$/.test(section)) {
      before = location.hash;
      if (dialog.open) dialog.close();
    }
    if (state && lists[section]) lists[section](new URLSearchParams(state));
    return open();
  };
  addEventListener('hashchange', follow);

  // A page in a file or behind plain HTTP may have no clipboard: the command is selected then, and copied as of old
  for (const code of all('.next code')) {
    const button = make('button', {}, 'Copy');
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = 'Copied';
      } catch {
        getSelection().selectAllChildren(code);
        button.textContent = document.execCommand('copy') ? 'Copied' : 'Selected';
      }
    });
    code.after(button);
  }
  await follow();
  for (const figure of all('[data-history]')) await chart(figure, data.metrics[figure.dataset.history]);
  document.documentElement.dataset.ready = '';
})();
