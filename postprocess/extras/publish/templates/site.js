(() => {
{% include 'common.js' %}
  const base = new URL('.', location.href), day = at => new Date(1000 * at).toISOString().slice(0, 10);
  const kinds = {FAILED: 'bad', OK: 'good', 'NEEDS A LOOK': 'look'}, names = {o: 'ok', i: 'improved', r: 'regressed', m: 'missing', f: 'failed', v: 'invalid', w: 'warning', n: 'no_reference'};

  // Times in words; a site without a session for two days is marked, because its state may be out of date
  for (const time of all('[data-at]')) {
    const at = 1000 * time.dataset.at, days = Math.floor((Date.now() - at) / 864e5);
    time.dateTime = new Date(at).toISOString();
    time.title = `${time.dateTime.slice(0, 16).replace('T', ' ')} UTC`;
    time.textContent = `${new Date(at).toLocaleString([], {dateStyle: 'medium', timeStyle: 'short'})}, ${days < 1 ? 'less than a day' : days === 1 ? '1 day' : `${days} days`} ago`;
    if (days > 1) time.className = 'late';
  }

  // Each data file calls this function, which also works in a page from a file; each file is read once
  const received = {}, asked = {};
  window.plumbline = content => { received[content.name] = content; };
  const read = path => asked[path] ??= new Promise((done, failed) => {
    document.head.append(make('script', {src: new URL(path, base), onload: done, onerror: () => failed(new Error(`${path} could not be read`))}));
  });
  const month = async name => {
    await read(`data/${name}.js`);
    return received[name].rows;
  };
  const readLibrary = () => read(document.body.dataset.uplot);
  if (!byId('cards')) return document.documentElement.dataset.ready = '';

  let site, order;
  const monthOf = uuid => day(site.sessions[uuid].at).slice(0, 7);
  const rows = async months => Object.assign({}, ...await Promise.all(months.map(month)));
  const rowOf = async uuid => (await month(monthOf(uuid)))[uuid];
  const nameOf = ([, , check, params, metric, dims]) => [check, params, metric, dims].filter(part => part !== '-').join(' ');
  const addressOf = row => `#metric=${encodeURIComponent(row.slice(0, 6).join('/'))}`;
  const link = (href, text, properties = {}) => make('a', {href, ...properties}, text);
  const sessionLink = (uuid, text = day(site.sessions[uuid].at)) => link(`#session=${uuid}`, text);
  const list = (items, most = 20) => make('ul', {}, ...items.slice(0, most).map(parts => make('li', {}, ...[parts].flat())), ...(items.length > most ? [make('li', {}, `and ${items.length - most} more`)] : []));
  const facts = of => make('dl', {}, ...Object.entries(of).filter(([, text]) => text?.length || text?.nodeType).flatMap(([name, text]) => [make('dt', {}, name), make('dd', {}, text)]));
  const mark = code => make('span', {className: `v ${names[code]}`}, spoken(names[code] ?? 'not measured'));
  const historyOf = (number, sessions, of) => {
    const at = sessions.map((_, i) => i).filter(i => of[sessions[i]]?.values[number] != null), [, , , , , , unit, , expected, limit] = site.series[number];
    return {at, history: at.map(i => of[sessions[i]].values[number]), unit, expected, limit};
  };

  const incidents = () => {
    const of = Object.entries(site.incidents), card = ([id, one]) => make('article', {className: `card ${one.state}`, id: `i${id}`},
      make('p', {className: 'state'}, make('b', {}, one.state), ` ${one.kind} `, link(`#incident=${id}`, id)), make('h2', {}, one.where),
      make('p', {className: 'what'}, one.what), make('p', {className: 'u'}, [one.since, ...(one.corrected ?? [])].join('; ')), ...(one.changed.length ? [make('p', {}, make('b', {}, one.changed.join('; ')))] : []));
    const now = of.filter(([, one]) => failing.includes(one.state)), past = of.filter(one => !now.includes(one));
    byId('cards').append(...(now.length ? now.map(card) : [make('p', {}, 'None is open.')]));
    fold(byId('cards').nextElementSibling, past.map(card), `${past.length} acknowledged, healing or closed`);
  };
  const fold = (details, parts, title) => {
    details.hidden = !parts.length;
    details.firstElementChild.textContent = title;
    details.lastElementChild.append(...parts);
  };

  // One row for each month, the newest first, with a place for each day: a gap is a day without a session
  const calendar = () => {
    const months = Map.groupBy?.(order, monthOf) ?? order.reduce((found, uuid) => found.set(monthOf(uuid), [...found.get(monthOf(uuid)) ?? [], uuid]), new Map());
    const drawn = [...months].reverse().map(([name, own]) => {
      const last = new Date(Date.UTC(...name.split('-').map(Number), 0)).getUTCDate(), byDay = new Map(own.map(uuid => [Number(day(site.sessions[uuid].at).slice(8)), []]));
      for (const uuid of own) byDay.get(Number(day(site.sessions[uuid].at).slice(8))).push(uuid);
      const cells = Array.from({length: last}, (_, i) => byDay.get(i + 1) ?? [null]).flatMap((found, i) => found.map(uuid => {
        if (!uuid) return make('li', {className: 'none'});
        const one = site.sessions[uuid], title = `${day(one.at)}: ${one.word}: ${one.said}`, cell = sessionLink(uuid, day(one.at).slice(8)); // what is seen is a word of the label
        Object.assign(cell, {className: `day ${kinds[one.word]}`, title, ariaLabel: title});
        return make('li', {}, cell);
      }));
      return make('section', {className: 'month'}, make('h3', {}, name), make('ul', {}, ...cells));
    });
    byId('months').append(...drawn.slice(0, 3));
    fold(byId('months').nextElementSibling, drawn.slice(3), `${Math.max(drawn.length - 3, 0)} earlier months`);
  };

  const failing = ['open', 'intermittent', 'suspected'], percent = value => value == null ? '' : `${(Math.round(10 * value) / 10 + 0).toFixed(1)} %`; // + 0: no "-0.0"

  // Compare two sessions, and show how much neighbouring sessions of their months usually differ
  const form = document.forms[0], table = byId('changes'), [output] = all('output', form), [more] = all('[type=button]', form);
  const usual = (number, of) => {
    const steps = of.map(row => row.values[number]).filter(value => value > 0).map(Math.log).map((value, i, every) => Math.abs(value - every[i - 1])).slice(1).sort((a, b) => a - b);
    return steps.length < 5 ? null : 1.4826 * steps[Math.floor(steps.length / 2)];
  };
  const compare = async (before, after) => {
    const [one, other] = [await rowOf(before), await rowOf(after)], near = await rows([...new Set([monthOf(before), monthOf(after)])]);
    const [begin, end] = [order.indexOf(before), order.indexOf(after)].sort((a, b) => a - b), sessions = order.slice(Math.max(Math.min(begin, end - 89), 0), end + 1);
    const between = await rows([...new Set(sessions.map(monthOf))]), past = number => {
      const own = historyOf(number, sessions, between), places = [before, after].map(uuid => own.at.indexOf(sessions.indexOf(uuid))).filter(place => place >= 0);
      if (own.history.length < 3) return '';
      const drawn = make('span', {role: 'img', ariaLabel: `${own.history.length} sessions, ${short(Math.min(...own.history))} to ${short(Math.max(...own.history))} ${own.unit}`});
      drawn.innerHTML = small(own, places);
      return drawn;
    };
    const of = order.filter(uuid => near[uuid]).map(uuid => near[uuid]), found = [];
    site.series.forEach((series, number) => {
      const [a, b] = [one, other].map(row => row.values[number]), code = other.verdicts[number] ?? ' ';
      if (a == null && b == null) return;
      const change = a > 0 && b > 0 ? (series[7] === 'higher' ? 1 : -1) * Math.log(b / a) : null, spread = usual(number, of);
      found.push({number, series, a, b, code, change, spread, far: a == null || b == null || (spread != null && Math.abs(change) > 3 * spread)});
    });
    found.sort((x, y) => y.far - x.far || (x.change ?? -9) - (y.change ?? -9));
    const relative = value => value == null ? '' : percent(100 * Math.expm1(value)), heads = [...table.tHead.rows[0].cells].map(head => head.textContent);
    const far = found.filter(one => one.far), facts = [...new Set([...Object.keys(one.facts), ...Object.keys(other.facts)])].filter(name => one.facts[name] !== other.facts[name]).map(name => `${name}: ${one.facts[name] ?? 'nothing'} \u2192 ${other.facts[name] ?? 'nothing'}`);
    const show = of => table.tBodies[0].replaceChildren(...of.map(({number, series, a, b, code, change, spread, far}) => make('tr', {className: far ? 'far' : ''},
      ...[link(addressOf(series), nameOf(series)), short(a), short(b), series[6], past(number), change > 0 ? `+${relative(change)}` : relative(change), spread == null ? '' : `\u00b1 ${relative(spread)}`, mark(code)].map((part, i) => {
        const cell = make('td', {className: [1, 2, 5, 6].includes(i) ? 'r' : ''}, part);
        cell.dataset.title = heads[i];
        return cell;
      }))));
    show(far);
    more.hidden = far.length === found.length;
    more.onclick = () => { show(found); more.hidden = true; };
    table.hidden = false;
    table.caption.replaceChildren(sessionLink(before), ' and ', sessionLink(after), '. ', facts.length ? `Changed between them: ${facts.join('; ')}. ` : 'None of the recorded facts changed. ',
      `History: the sessions up to the later of the two, which are marked. Usual: how much neighbouring sessions differ. Judged by its spread: plumbline compare ${before.slice(0, 8)} ${after.slice(0, 8)}`);
    output.textContent = `${far.length} of ${found.length} metrics differ more than sessions usually do`;
    [form.elements.before.value, form.elements.after.value] = [before, after];
  };

  // A small drawing of every metric, by check
  const overview = async () => {
    const sessions = order.slice(-90), of = await rows([...new Set(sessions.map(monthOf))]), last = of[order.at(-1)], checks = new Map();
    site.series.forEach((series, number) => {
      const one = historyOf(number, sessions, of), place = `${series[2]} ${series[0]}/${series[1]}`;
      if (!one.history.length) return;
      const code = last.verdicts[number], name = nameOf(series), box = link(addressOf(series), '', {className: `mini mark ${names[code] ?? 'no_reference'}`, title: `${name}: ${spoken(names[code] ?? 'not measured in the last session')}`});
      if (one.history.length > 1) box.innerHTML = small(one);
      box.append(short(last.values[number] ?? one.history.at(-1)));
      box.dataset.text = `${place} ${name} ${spoken(names[code] ?? '')}`.toLowerCase();
      checks.set(place, [...checks.get(place) ?? [], box]);
    });
    byId('rows').append(...[...checks].sort(([a], [b]) => a < b ? -1 : 1).map(([place, boxes]) => {
      const row = make('div', {className: 'row'}, make('h3', {}, place), make('div', {}, ...boxes));
      row.style.setProperty('--boxes', boxes.length);
      return row;
    }));
    const [search] = all('.filters[data-of=metrics] input'), said = search.closest('.filters').querySelector('output'), boxes = all('.mini');
    const filter = () => {
      const words = search.value.toLowerCase().split(/\s+/);
      for (const box of boxes) box.hidden = !words.every(word => box.dataset.text.includes(word));
      for (const row of all('.row')) row.hidden = all('.mini', row).every(box => box.hidden);
      said.textContent = `${boxes.filter(box => !box.hidden).length} of ${boxes.length} metrics`;
    };
    search.addEventListener('input', () => {
      history.replaceState(null, '', search.value ? `#metrics?q=${encodeURIComponent(search.value)}` : '#metrics');
      filter();
    });
    filter();
    return words => { search.value = words; filter(); byId('metrics').scrollIntoView(); };
  };

  // Show in a dialog what the address names
  const dialog = byId('details');
  let shown = '';
  const show = (title, ...parts) => {
    byId('named').textContent = title;
    dialog.lastElementChild.replaceChildren(...parts);
    if (!dialog.open) dialog.showModal();
    shown = location.hash;
    dialog.scrollTop = 0;
  };
  const known = test => Object.entries(site.incidents).filter(([, one]) => test(one)).map(([id, one]) => [link(`#incident=${id}`, id), ` ${one.kind} ${one.where}: ${one.what}`]);
  const views = {
    session: async uuid => {
      const one = site.sessions[uuid], row = await rowOf(uuid), place = order.indexOf(uuid), [before, after] = [order[place - 1], order[place + 1]];
      const wrong = site.series.flatMap((series, i) => 'rmfvw'.includes(row.verdicts[i] ?? ' ') && row.verdicts[i] ? [[mark(row.verdicts[i]), ' ', link(addressOf(series), nameOf(series)), ` ${short(row.values[i])} ${series[6]}`]] : []);
      show(`Session of ${new Date(1000 * one.at).toISOString().slice(0, 16).replace('T', ' ')} UTC`, make('p', {}, make('b', {className: {bad: 'b', look: 'w', good: 'o'}[kinds[one.word]]}, one.word), `: ${one.said}`),
        make('p', {}, ...[one.page && link(`sessions/${uuid}.html`, 'All of this session'), before && sessionLink(before, 'the one before'), after && sessionLink(after, 'the one after'), before && link(`#compare=${before}..${uuid}`, 'compare with the one before')].filter(Boolean).flatMap((part, i) => i ? ['; ', part] : [part])),
        list(one.problems), list(known(incident => incident.sessions.includes(uuid))), list(wrong),
        facts({Session: uuid, Mode: one.mode, Cases: `${one.ran}${one.expected ? ` of ${one.expected}` : ''}`, ...row.facts}));
    },
    incident: async id => {
      const one = site.incidents[id];
      show(`${one.kind} ${one.where}`, make('p', {}, make('b', {}, one.state), `: ${one.what}`), facts({Since: one.since, Began: one.day, Changed: one.changed.join('; '), Corrected: one.corrected?.join('; '), Nodes: one.nodes.join(', '),
        Sessions: make('span', {}, ...one.sessions.filter(uuid => site.sessions[uuid]).slice(-30).flatMap(uuid => [sessionLink(uuid), ' '])), Next: make('code', {}, one.next)}),
        list(one.evidence), list(one.series.map(number => link(addressOf(site.series[number]), nameOf(site.series[number])))));
    },
    metric: async text => {
      const number = site.series.findIndex(row => row.slice(0, 6).join('/') === text), row = site.series[number], box = make('figure', {});
      show(nameOf(row), box, facts({Where: `${row[0]}/${row[1]}`, Unit: `${row[6]}, ${row[7]} is better`, Expected: short(row[8]), Limit: short(row[9])}), list(known(one => one.series.includes(number))));
      const of = await rows(site.months), one = historyOf(number, order, of);
      one.changes = Object.values(site.incidents).filter(incident => incident.size && incident.series.includes(number)).map(incident => [order.findIndex(uuid => day(site.sessions[uuid].at) >= incident.day), [incident.size, incident.day, ...incident.changed.slice(0, 1)].join(', ')]);
      if (one.at.length) await chart(box, one, order.map(uuid => site.sessions[uuid].at));
    },
    compare: async text => {
      if (dialog.open) dialog.close();
      await compare(...text.split('..'));
      byId('compare').scrollIntoView();
    },
  };
  let search, before = '';
  const follow = async () => {
    const [kind, text = ''] = location.hash.slice(1).replace('metrics?q=', 'metrics=').split(/=(.*)/s), of = decodeURIComponent(text);
    if (!['session', 'incident', 'metric'].includes(kind)) {
      before = location.hash;
      if (dialog.open) dialog.close();
    }
    const exists = {session: site.sessions[of], incident: site.incidents[of], compare: of.split('..').length === 2 && of.split('..').every(uuid => site.sessions[uuid]), metric: site.series.some(row => row.slice(0, 6).join('/') === of)};
    if (kind === 'metrics' && text) search(of);
    else if (views[kind] && !exists[kind]) throw new Error(`This site has no ${kind} ${of}`);
    else await views[kind]?.(of);
  };
  const guarded = action => action().catch(error => {
    byId('fault').textContent = error.message;
    byId('fault').hidden = false;
    if (dialog.open) dialog.close();
  });
  dialog.addEventListener('close', () => { // comes later: the reader may have gone on
    if (location.hash === shown) history.replaceState(null, '', before || location.pathname + location.search);
  });
  dialog.addEventListener('click', event => {
    if (event.target !== dialog && !event.target.closest('.close')) return;
    event.preventDefault();
    dialog.close();
  });
  form.addEventListener('submit', event => {
    event.preventDefault();
    location.hash = `#compare=${form.elements.before.value}..${form.elements.after.value}`;
  });
  guarded(async () => {
    await read('data/site.js');
    site = received.site;
    order = Object.keys(site.sessions).sort((a, b) => site.sessions[a].at - site.sessions[b].at);
    incidents();
    calendar();
    for (const select of [form.elements.before, form.elements.after]) select.append(...order.toReversed().map(uuid => make('option', {value: uuid}, `${day(site.sessions[uuid].at)} ${site.sessions[uuid].word} ${uuid.slice(0, 8)}`)));
    if (order.length > 1) form.elements.before.selectedIndex = 1;
    search = await overview();
    addEventListener('hashchange', () => guarded(follow));
    await follow();
  }).then(() => { document.documentElement.dataset.ready = ''; });
})();
