(async () => {
{% include 'common.js' %}
  const unpack = async script => {
    const bytes = Uint8Array.from(atob(script.textContent), c => c.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'))).text();
  };
  const readLibrary = async () => document.head.append(make('script', {textContent: await unpack(byId('uplot'))}));
  const data = JSON.parse(await unpack(byId('data')));
  for (const rows of all('[data-rows]')) byId(rows.dataset.rows).tBodies[0].insertAdjacentHTML('beforeend', await unpack(rows));
  const idOf = link => link?.hash.match(/^#m(\d+)$/)?.[1];

  // The samples of a metric in its row
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
    if (one.history) return chart(box, one, data.sessions);
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
  for (const figure of all('[data-history]')) await chart(figure, data.metrics[figure.dataset.history], data.sessions);
  document.documentElement.dataset.ready = '';
})();
