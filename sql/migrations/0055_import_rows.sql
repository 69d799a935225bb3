-- oldest release: 1.1.0
-- The file of an import is read once, from its beginning to its end, and its records become rows. Until here, workers read it
-- twice in parts from a number of bytes on, and failed records were kept as lines of CSV.

create table import_rows (
  customer_id uuid not null,
  import_id uuid not null,
  line integer not null,
  cells json not null,
  error text,
  warning text,
  constraint import_rows_pkey primary key (customer_id, import_id, line)
);
-- place: import_rows
alter table import_rows add constraint import_rows_import_fkey
  foreign key (customer_id, import_id) references imports (customer_id, id) on delete cascade;
create index import_rows_with_message on import_rows (customer_id, import_id, line)
  where error is not null or warning is not null;
grant select, insert, update, delete on import_rows to sales_data_api;
comment on table import_rows is
  'The records of an import''s file. One that is written goes if nothing is to be said about it, of a dry run 24 hours after its end; the others go 30 days after the end.';
comment on column import_rows.line is 'Line of the file in which the record starts, of a sheet the number of its row.';
comment on column import_rows.cells is
  'The cells as the file has them (see src/files/stored-rows.ts). json, not jsonb: a text can have NUL characters, which only json keeps.';
comment on column import_rows.error is 'Why the record was not written.';
comment on column import_rows.warning is 'What was left out of the record.';

alter table imports drop constraint imports_written_within_total;
alter table imports add constraint imports_written_within_total check (created + updated + unchanged + failed <= total);
alter table imports add column done_line integer not null default 0;
alter table imports rename column file_kept_until to rows_kept_until;
alter index imports_kept_files rename to imports_kept_rows;

-- Failed records, which were lines of CSV, with their cells in the order of the columns.
insert into import_rows (customer_id, import_id, line, cells, error, warning)
select customer_id, import_id, line, cells, nullif(error, ''), nullif(warning, '')
from (
  select
    r.customer_id,
    r.import_id,
    r.texts[r.own + 1]::integer as line,
    r.texts[r.own + 2] as error,
    r.texts[r.own + 3] as warning,
    case
      when r.headers is null then json_build_array(r.texts[1])
      else (
        select json_agg(
          case
            when c.place > r.width then r.texts[r.own + 3 + (c.place - r.width)::integer]
            else coalesce(r.texts[array_position(r.places, (c.place - 1)::integer)], '')
          end
          order by c.place
        )
        from generate_series(1, r.width + greatest(cardinality(r.texts) - r.own - 3, 0)) as c (place)
      )
    end as cells
  from (
    select
      w.customer_id,
      w.import_id,
      w.headers,
      w.places,
      w.width,
      w.own,
      array_agg(w.text order by w.number) as texts
    from (
      select
        m.customer_id,
        m.import_id,
        m.position,
        m.headers,
        m.places,
        coalesce(jsonb_array_length(m.headers), 1) as width,
        coalesce(cardinality(m.places), 1) as own,
        m.number,
        case
          when m.cell[1] like '"%' then replace(substr(m.cell[1], 2, length(m.cell[1]) - 2), '""', '"')
          else m.cell[1]
        end as text,
        count(*) filter (where m.cell[2] = E'\r\n')
          over (partition by m.customer_id, m.import_id, m.position order by m.number)
          - (m.cell[2] = E'\r\n')::integer as record
      from (
        select
          e.customer_id,
          e.import_id,
          e.position,
          i.layout -> 'headers' as headers,
          case when i.layout is not null then array(
            select h.place - 1
            from jsonb_array_elements_text(i.layout -> 'headers') with ordinality as h (name, place)
            where case
              when i.layout ? 'omitted' then not i.layout -> 'omitted' @> to_jsonb(h.place - 1)
              else h.name <> all (array['_line', '_error', '_warning'])
            end
          )::integer[] end as places,
          parsed.cell,
          parsed.number
        from import_errors e
        join imports i
          on i.customer_id = e.customer_id
          and i.id = e.import_id
        cross join lateral regexp_matches(
          e.lines,
          '("(?:[^"]|"")*"|[^"\r\n' || coalesce(i.layout ->> 'separator', ',') || ']*)('
            || case coalesce(i.layout ->> 'separator', ',') when '|' then '\|' else coalesce(i.layout ->> 'separator', ',') end
            || '|\r\n)',
          'g'
        ) with ordinality as parsed (cell, number)
      ) m
    ) w
    group by w.customer_id, w.import_id, w.position, w.record, w.headers, w.places, w.width, w.own
  ) r
) given
on conflict do nothing;
drop table import_errors;

-- An import under way is read anew, and goes on behind the line that it has reached.
update imports
set total = null, done_line = coalesce((position ->> 'line')::integer - 1, 0)
where finished_at is null
  and total is not null;
-- The files of these were replaced by what was read from them, in a form that is no longer known.
update imports
set
  status = 'FAILED',
  error = 'the service was updated during the import: send the file again',
  finished_at = (select clock_timestamp())
where finished_at is null
  and is_converted;
delete from import_chunks c
using imports i
where i.finished_at is not null
  and i.customer_id = c.customer_id
  and i.id = c.import_id;
update imports
set rows_kept_until = null
where rows_kept_until is not null;
alter table imports drop column position;
alter table imports drop column counted;
alter table imports drop column is_converted;

comment on column imports.layout is 'The columns of a CSV or XLSX file, as its header line and the mapping give them. Null until its records are rows.';
comment on column imports.done_line is 'Line of the last record that was written.';
comment on column imports.total is 'Number of records; null until all of them are rows.';
comment on column imports.rows_kept_until is 'Until then the rows of a dry run that has ended are kept, so that it can be run for real. Null: none are kept.';
