import type { Queryable } from '../../database/db.ts';
import { liveCompanies } from '../../filters/live.ts';
import type { UndoEstimate } from '../../schemas/events/undo.ts';
import { recordTypes } from '../../schemas/events/types.ts';

/**
 * Counts what the undo of a change would do, from the journal alone. Custom fields count together, and what was changed
 * since counts as kept although it may have got its value back. Reads the journal behind the change once.
 */
export async function estimateUndo(sql: Queryable, customerId: string, changeId: string): Promise<UndoEstimate> {
  const [counts] = await sql<[UndoEstimate]>`
    with written as materialized (
      select
        record_id, position, type, split_part(type, '.', 1) as noun, before ->> 'external_id' as external_id, after,
        type like '%.deleted' and before is null as is_purged
      from journal
      where customer_id = ${customerId}::uuid
        and change_id = ${changeId}::uuid
        and type = any(${recordTypes}::text[])
    ),
    own as materialized (
      select
        record_id,
        min(noun) as noun,
        max(position) as last,
        bool_or(type like '%.created') as is_created,
        bool_or(type like '%.deleted') as is_deleted,
        bool_or(is_purged) as is_purged,
        max(external_id) filter (where type like '%.deleted') as external_id
      from written
      group by record_id
    ),
    later as materialized (
      select j.record_id, j.type, j.after
      from journal j
      join own on own.record_id = j.record_id and own.last < j.position
      where j.customer_id = ${customerId}::uuid
        and j.position > (select min(last) from own)
        and j.change_id is distinct from ${changeId}::uuid
        and j.type = any(${recordTypes}::text[])
    ),
    later_writes as (
      select
        record_id,
        bool_or(type like '%.created') as is_created,
        bool_or(type like '%.deleted') as is_deleted,
        bool_or(type like '%.updated') as is_updated
      from later
      group by record_id
    ),
    fields as (
      select
        own_field.record_id,
        bool_or(later_field.field is not null) as is_some_rewritten,
        bool_or(later_field.field is null) as is_some_left
      from (select distinct record_id, json_object_keys(after) as field from written) own_field
      left join (select distinct record_id, json_object_keys(after) as field from later) later_field
        on later_field.record_id = own_field.record_id and later_field.field = own_field.field
      group by own_field.record_id
    ),
    found as (
      select
        case
          when own.is_created then not own.is_deleted and l.record_id is null
          when own.is_deleted then not own.is_purged and l.is_created is not true
          else l.is_deleted is not true and coalesce(f.is_some_left, false)
        end as is_restored,
        case
          when own.is_created then not own.is_deleted and coalesce(l.is_updated, false)
          else not own.is_deleted and coalesce(f.is_some_rewritten, false)
        end as is_kept,
        own.noun,
        case when not own.is_created and l.is_created is not true then own.external_id end as external_id
      from own
      left join later_writes l on l.record_id = own.record_id
      left join fields f on f.record_id = own.record_id
    )
    select
      count(*) as records,
      count(*) filter (where is_restored) as restored,
      count(*) filter (where is_kept) as kept,
      count(*) filter (
        where external_id is not null
          and case noun
            when 'contact' then exists (
              select 1
              from contacts c
              where c.customer_id = ${customerId}::uuid
                and c.external_id = found.external_id
            )
            when 'activity' then exists (
              select 1
              from activities a
              where a.customer_id = ${customerId}::uuid
                and a.external_id = found.external_id
                and a.hidden_at is null
            )
            when 'product' then exists (
              select 1
              from products p
              where p.customer_id = ${customerId}::uuid
                and p.external_id = found.external_id
                and p.deleted_at is null
            )
            when 'opportunity' then exists (
              select 1
              from opportunities o
              where o.customer_id = ${customerId}::uuid
                and o.external_id = found.external_id
            )
            else exists (
              select 1
              from ${liveCompanies(sql, customerId)}
                and co.external_id = found.external_id
            )
          end
      ) as conflicts
    from found`;
  return counts;
}
