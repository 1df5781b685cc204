(async () => {
{% include 'common.js' %}
  const unpack = async script => {
    const bytes = Uint8Array.from(atob(script.textContent), c => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).text();
  };
  const readLibrary = async () => document.head.append(make('script', {textContent: await unpack(byId('uplot'))}));
  const data = JSON.parse(await unpack(byId('data')));
  const idOf = link => link?.hash.match(/^#m(\d+)$/)?.[1], cell = (row, column) => row.querySelector(`[data-column=${column}]`);

  // Unpack the data of the page. The page has only the table rows that are shown: thousands of rows would make each click slow
  const unpacked = async id => {
    const more = make('template');
    more.innerHTML = byId(`of-${id}`) ? await unpack(byId(`of-${id}`)) : '';
    return [...more.content.children];
  };
  byId('boxes')?.append(...await unpacked('boxes'));
  const rowsOf = {};
  for (const id of ['verdicts', 'fleet']) if (byId(id)) rowsOf[id] = [...byId(id).tBodies[0].rows, ...await unpacked(id)];

  // Show the samples of a metric in its row
  const strip = one => {
    const values = one.values ?? Object.values(one.jobs?.[0]?.[2] ?? {}).flatMap(text => text.split(' ').map(Number)).filter(Number.isFinite);
    const levels = [...values, one.limit ?? values[0], one.expected ?? values[0]], low = Math.min(...levels), high = Math.max(...levels);
    const x = value => 2 + 2.4 * Math.round(high > low ? 40 * (value - low) / (high - low) : 20), ticks = {};
    for (const value of values) ticks[x(value)] = (ticks[x(value)] ?? 0) + 1;
    const most = Math.max(...Object.values(ticks)), across = level => level == null ? '' : `M${x(level)} 0v14`;
    const path = Object.entries(ticks).map(([place, n]) => `M${place} 14v${-4 - 8 * n / most}`).join('');
    return values.length ? drawing(100, 14, ['samples', path], ['e', across(one.expected)], ['l', across(one.limit)]) : '';
  };
  for (const row of all('.row')) whenSeen(row, () => {
    for (const link of all('.mini', row)) {
      const one = data.metrics[idOf(link)];
      link.title = `${one.name}: ${[spoken(one.verdict), one.deviation, one.jobs?.length > 1 && 'the worst of its jobs'].filter(Boolean).join(', ')}`;
      if (one.history) link.insertAdjacentHTML('beforeend', small(one));
    }
  });

  // Squares of nodes, grouped by places such as `switch s3`, the largest place outside; darker the more % a node is `behind`
  const natural = new Intl.Collator('en', {numeric: true}).compare;
  const mapOf = nodes => {
    const known = nodes.map(node => ({...node, at: Object.fromEntries(node.places.map(place => place.split(/ (.*)/)))})).sort((a, b) => natural(a.name, b.name));
    const kinds = [...new Set(known.flatMap(node => Object.keys(node.at)))].map(kind => [new Set(known.map(node => node.at[kind])).size, kind]).sort(([a], [b]) => a - b);
    const square = node => {
      const link = make('a', {href: node.href, tabIndex: -1, className: node.mark, title: `${node.name} ${node.text}`});
      link.style.setProperty('--h', Math.min(Math.max(-node.behind || 0, 0), 10) / 10);
      return link;
    };
    const placed = (of, [kind, ...inner]) => kind === undefined ? of.map(square)
      : [...new Set(of.map(node => node.at[kind] ?? ''))].sort(natural).map(name => make('div', {className: 'place'},
        make('span', {}, name ? `${kind} ${name}` : `no ${kind}`), make('div', {}, ...placed(of.filter(node => (node.at[kind] ?? '') === name), inner))));
    return kinds.length ? placed(known, kinds.map(([, kind]) => kind)) : [make('div', {className: 'place'}, make('div', {}, ...known.map(square)))];
  };

  // The map of the nodes shows the same as their table
  const nodes = (rowsOf.fleet ?? []).map(row => {
    const text = column => cell(row, column)?.textContent ?? '', name = text('name'), behind = text('furthest'), place = text('places');
    return {name, mark: text('incidents').trim() && 'found', behind: parseFloat(behind), text: `${behind} ${text('worst')} ${place}`, href: `#n=${encodeURIComponent(name)}`, places: place.split(', ').filter(Boolean)};
  });
  byId('map')?.append(...mapOf(nodes));

  // A page in a file or behind plain HTTP may have no clipboard: then select the command and use the older way to copy
  const copied = code => {
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
  };

  // Details of the metric, case or node in the address; when they are closed, the earlier address returns and the page does not scroll
  const dialog = byId('details');
  let before = '', shown = '';
  const facts = (of = {}) => make('dl', {}, ...Object.entries(of).filter(([, text]) => text).flatMap(([name, text]) => [make('dt', {}, name), make('dd', {}, text)]));
  const verdict = name => make('span', {className: `v ${name}`}, spoken(name));
  const job = ([name, id, nodes], several) => {
    const of = data.cases[id], samples = Object.entries(nodes).map(([node, values]) => `${node}: ${values}`).join('; ');
    return make('p', {}, ...(several ? [verdict(name), ' '] : []), make('a', {href: `#c${id}`}, `Job ${of.job}`),
      ...archive(of).flatMap(link => [', ', link]), ' ', make('span', {className: 'raw'}, samples || 'no sample'));
  };
  const archive = of => of.output ? [make('a', {href: of.output}, 'its output and job script')] : [];
  // What a program printed, with marked lines: those of all numbers, or in the details of a metric those of its numbers
  const numbered = ({caption, lines, marks}, id) => {
    const marked = new Set(id == null ? Object.values(marks).flat() : marks[id]), shown = [];
    lines.forEach(([line, text], i) => {
      if (i && line !== lines[i - 1][0] + 1) shown.push('\u22ef\n');
      const is = marked.has(line);
      shown.push(make('span', {className: 'u'}, `${is ? '>' : ' '}${String(line).padStart(5)} `), is ? make('mark', {}, text) : text, '\n');
    });
    return make('figure', {className: 'printed'}, make('figcaption', {}, caption), make('pre', {tabIndex: 0}, ...shown));
  };
  const printed = (of, id) => !of || id != null && !of.of.includes(+id) ? [] : [
    make('h3', {}, 'What the program printed'), ...(of.problem ? [make('p', {}, of.problem)] : []),
    ...of.parts.filter(({marks}) => id == null || marks[id] || !Object.keys(marks).length).map(part => numbered(part, id)),
  ];
  const command = text => {
    const code = make('code', {}, text), line = make('p', {className: 'next'}, code);
    copied(code);
    return line;
  };
  // A metric, with the values of one of its nodes
  const beside = (id, node = data.metrics[id].node) => {
    const one = data.metrics[id], apart = data.nodes[node]?.own?.[id];
    const own = apart && one.history?.map((middle, i) => apart[i] == null ? null : middle * (1 + apart[i] / 1e4));
    return own ? {...one, node, own, bad: node === one.node ? one.bad : null} : one;
  };
  const past = (box, id, node) => {
    const one = data.metrics[id];
    if (one.history) whenSeen(box, () => chart(box, beside(id, node), data.sessions));
    return box;
  };
  // A curve over sizes or counts, drawn from its table of numbers; it replaces the printed drawing and has hover and zoom
  const curve = async figure => {
    await (library ??= readLibrary());
    const [table] = all('table', figure), rows = [...table.tBodies[0].rows], places = rows.map(row => +row.cells[0].dataset.x);
    const isLog = 'log' in figure.dataset, least = Math.min(...places.filter(x => x > 0)), xs = places.map(x => isLog && x <= 0 ? least / 2 : x);
    const texts = new Map(rows.map((row, i) => [xs[i], row.cells[0].textContent])), every = Math.ceil(xs.length / 8), few = all('svg .l', figure).length;
    const lines = all('svg g', figure).map((group, i) => {
      const cells = rows.map(row => row.cells[i + 1]), of = cells.map(cell => data.metrics[idOf(cell.querySelector('a'))]);
      const values = cells.map(cell => cell.textContent ? parseFloat(cell.textContent) : null), first = values.findIndex(value => value != null);
      const usual = end => cells.map(cell => cell.dataset.usual ? +cell.dataset.usual.split(' ')[end] : null);
      return {
        label: table.tHead.rows[0].cells[i + 1].textContent, values, stroke: () => getComputedStyle(group.querySelector('.line')).stroke,
        bad: cells.map((cell, j) => cell.className === 'b' ? values[j] : null),
        ideal: group.querySelector('.ideal') ? xs.map(x => values[first] * x / xs[first]) : null,
        bands: [[few ? of.map(one => one?.limit ?? null) : null, few ? of.map(one => one && mirrored(one)) : null, 'soft'], [usual(0), usual(1), 'c0']],
      };
    });
    const quiet = {class: 'none', points: {show: false}, stroke: null}, series = [], bands = [];
    for (const one of lines) {
      series.push([{label: one.label, stroke: one.stroke, width: 1.6, points: {size: 5}, value: (_, value) => short(value)}, one.values]);
      if (one.ideal) series.push([{label: 'ideal', stroke: one.stroke, dash: [2, 4], points: {show: false}, value: (_, value) => short(value)}, one.ideal]);
      for (const [low, high, of] of one.bands) {
        if (!low?.some(value => value != null)) continue;
        series.push([quiet, low.map((value, i) => value == null ? null : Math.max(value, high[i] ?? value))], [quiet, low.map((value, i) => value == null ? null : Math.min(value, high[i] ?? value))]);
        bands.push({series: [series.length - 1, series.length], fill: () => `${color(of)}26`});
      }
    }
    const powers = (_, __, low, high) => [...Array(25).keys()].map(i => 10 ** (i - 12)).filter(one => low <= one && one <= high);
    const y = spread([...lines.map(one => one.values), ...lines.map(one => one.ideal ?? [])]);
    if (y.distr === 3) for (const [, values] of series) values.forEach((value, i) => { if (value <= 0) values[i] = null; });
    const plot = new uPlot({
      width: Math.max(figure.clientWidth, 280), height: 240, bands, hooks: {draw: [of => lines.forEach(one => crosses(of, one.bad))], ready: [idle], setCursor: [idle]},
      scales: {x: {time: false, distr: isLog ? 3 : 1, log: 2}, y: y.distr === 1 ? {range: (_, low, high) => [Math.min(0, low), 1.05 * high]} : y},
      axes: [{...axis(), splits: () => xs.filter((_, i) => i % every === 0), filter: (_, at) => at, values: (_, at) => at.map(x => texts.get(x) ?? '')}, {...axis(), size: 64, ...(y.distr === 3 ? {splits: powers} : {})}],
      series: [{label: figure.querySelector('figcaption').textContent.split(', over ')[1], value: (_, x) => texts.get(x) ?? ''}, ...series.map(([options]) => options)],
    }, [xs, ...series.map(([, values]) => values)]);
    figure.querySelector('svg').after(plot.root);
    plot.over.title = 'Drag to zoom, double-click to see all';
  };
  const pages = {
    m: (one, id) => [
      make('p', {}, verdict(one.verdict), ` on ${one.where}${one.cause ? `: ${one.cause}` : ''}`), facts(one.facts), past(make('figure', {}), id),
      ...(one.jobs ?? []).map(of => job(of, one.jobs.length > 1)),
      ...(one.more ? [make('p', {className: 'u'}, `${one.more} more jobs: plumbline compare --format csv`)] : []),
      ...(one.jobs ?? []).slice(0, 1).flatMap(([, of]) => [...printed(data.cases[of].printed, id), ...(data.cases[of].again ? [command(data.cases[of].again)] : [])]),
    ],
    c: one => [...printed(one.printed), make('p', {}, ...archive(one)), facts(one.facts), ...(one.again ? [make('p', {}, 'Run this case again:'), command(one.again)] : [])],
    'n=': (one, node) => {
      const last = id => one.own?.[id]?.at(-1) ?? 0, ids = [...one.metrics ?? []].sort((a, b) => last(a) - last(b));
      return [
        facts({Place: one.place, Counted: one.counted}),
        ...Object.entries(one.incidents ?? {}).map(([id, what]) => make('p', {}, make('a', {href: `#i${id}`}, `Incident ${id}`), `: ${what}`)),
        ...(one.steps ?? []).map(command),
        ...ids.map(id => past(make('figure', {}, make('figcaption', {}, make('a', {href: `#m${id}`}, data.metrics[id].name), ...(one.bad?.includes(id) ? [' ', make('b', {className: 'b'}, 'fell short')] : []),
          one.own?.[id] ? ` ${(last(id) / 100).toFixed(1)} % from the median of the nodes` : '')), id, node)),
        make('details', {}, make('summary', {}, `${(one.cases ?? []).length} jobs`),
          ...(one.cases ?? []).map(id => make('p', {}, make('a', {href: `#c${id}`}, `Job ${data.cases[id].job}: ${data.cases[id].name}`)))),
      ];
    },
  };
  const open = () => {
    const [, kind, name] = location.hash.match(/^#(m|c|n=)(.+)$/) ?? [], id = kind && decodeURIComponent(name);
    const one = kind && {m: data.metrics, c: data.cases, 'n=': data.nodes}[kind][id];
    if (!one) return;
    byId('named').textContent = one.name ?? id;
    dialog.lastElementChild.replaceChildren(...pages[kind](one, id));
    if (!dialog.open) dialog.showModal();
    shown = location.hash;
    dialog.scrollTop = 0;
  };
  dialog.addEventListener('close', () => { // comes later: the reader may have gone on
    if (location.hash === shown) history.replaceState(null, '', before || location.pathname + location.search);
  });
  dialog.addEventListener('click', event => {
    if (event.target !== dialog && !event.target.closest('.close')) return;
    event.preventDefault();
    dialog.close();
  });

  // Search in a table, and sort it by a click on a title; the address keeps both
  const dressed = new WeakSet(), dress = row => {
    const one = data.metrics[idOf(cell(row, 'metric')?.querySelector('a'))];
    if (one && !dressed.has(row)) cell(row, 'value').insertAdjacentHTML('beforeend', strip(one));
    dressed.add(row);
  };
  const lists = Object.fromEntries(all('.filters').map(filters => {
    const [table] = all('table', filters.nextElementSibling), rows = rowsOf[table.id], heads = [...table.tHead.rows[0].cells];
    const texts = new Map(), first = [...rows], section = filters.dataset.of;
    const [search] = all('input', filters), [choice] = all('select', filters), [more] = all('button', filters), [output] = all('output', filters);
    const most = {nodes: 40, metrics: 100}[section];
    let sorted = '', fits = [], shown = 0;
    const textOf = row => texts.get(row) ?? texts.set(row, row.textContent.toLowerCase()).get(row);
    const show = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean), wanted = choice?.value ? spoken(choice.value) : '';
      fits = rows.filter(row => (!wanted || cell(row, 'verdict').textContent === wanted) && words.every(word => textOf(row).includes(word)));
      table.tBodies[0].replaceChildren();
      shown = 0;
      add(most);
    };
    const add = n => { // as many as a browser lays out while a reader waits
      const next = fits.slice(shown, shown + n);
      next.forEach(dress);
      table.tBodies[0].append(...next);
      shown += next.length;
      output.textContent = `${shown} of ${rows.length} ${section}`;
      more.hidden = shown === fits.length;
    };
    const sort = by => {
      const column = by.replace(/^-/, ''), head = heads.find(head => head.dataset.column === column), sign = by.startsWith('-') ? -1 : 1;
      for (const other of heads) other.removeAttribute('aria-sort');
      sorted = head ? by : '';
      if (!head) return void rows.splice(0, rows.length, ...first);
      const isNumber = head.matches('.r, [data-sort]'), values = new Map(first.map(row => {
        const {dataset, textContent} = cell(row, column), value = dataset.v ?? textContent;
        return [row, isNumber ? parseFloat(value) : value];
      }));
      const lacks = value => value === '' || Number.isNaN(value), order = (x, y) => lacks(x) || lacks(y) ? lacks(x) - lacks(y) : sign * (isNumber ? x - y : natural(x, y));
      rows.splice(0, rows.length, ...[...first].sort((x, y) => order(values.get(x), values.get(y))));
      head.setAttribute('aria-sort', sign === 1 ? 'ascending' : 'descending');
    };
    const keep = () => {
      const state = new URLSearchParams(Object.entries({q: search.value, verdict: choice?.value, sort: sorted}).filter(([, value]) => value));
      before = `#${section}${`${state}` ? `?${state}` : ''}`;
      history.replaceState(null, '', before);
      show();
    };
    search.addEventListener('input', keep);
    choice?.addEventListener('change', keep);
    more.addEventListener('click', () => add(1000));
    for (const head of heads) {
      const {column} = head.dataset, sign = head.dataset.sort === '-' ? '-' : '', button = make('button', {}, head.textContent);
      head.replaceChildren(button);
      button.addEventListener('click', () => {
        sort(sorted === sign + column ? (sign ? column : `-${column}`) : sign + column);
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
  for (const card of all('.card')) card.addEventListener('click', event => {
    const [details] = all('details', card);
    if (!event.target.closest('a, button, details') && getSelection().isCollapsed) details.open = !details.open;
  });
  const follow = () => {
    const [section, state] = location.hash.slice(1).split('?');
    if (!/^([mc]\d+$|n=)/.test(section)) {
      before = location.hash;
      if (dialog.open) dialog.close();
    }
    if (state && lists[section]) lists[section](new URLSearchParams(state));
    return open();
  };
  addEventListener('hashchange', follow);

  for (const code of all('.next code')) copied(code);
  for (const time of all('time')) {
    time.title = time.textContent;
    time.textContent = `${written(Date.parse(time.dateTime) / 1000)} ${new Date(time.dateTime).toLocaleTimeString('en', {timeZoneName: 'short'}).split(' ').pop()}`;
  }
  await follow();
  for (const figure of all('.curve')) whenSeen(figure, () => curve(figure));
  for (const figure of all('[data-history]')) past(figure, figure.dataset.history);
  document.documentElement.dataset.ready = '';
  library ??= readLibrary();  // so that all charts can be drawn at once for printing
})();
