-- oldest release: 1.1.0
-- What kept memberships by rule right goes: fills, copied members, settlements of companies, removals of contacts,
-- versions of rules, counters of lists. Work that was not finished is finished here.

alter table list_members drop constraint list_members_for_a_reason;
alter table list_members alter column by_hand set default true;
-- The contact that replaces a merged one is a member instead.
insert into list_members (customer_id, list_id, contact_id, by_hand)
select distinct p.customer_id, p.list_id, c.id, true
from copied_members p
cross join unnest(p.contact_ids) as waiting (contact_id)
left join merged_records m on m.customer_id = p.customer_id and m.id = waiting.contact_id
join contacts c on c.customer_id = p.customer_id and c.id = coalesce(m.merged_into, waiting.contact_id)
on conflict (customer_id, list_id, contact_id) do update set by_hand = true;
-- What an instance of 1.0.0 has written last.
delete from list_members where not by_hand;
alter table list_members drop column by_hand;
alter table list_members drop column by_rule;
comment on table list_members is
  'The contacts that were added to a list by hand. Contacts that match the rules of a list are members too, and have no row.';

delete from opportunity_contacts
where (customer_id, contact_id) in (select customer_id, contact_id from contact_removals);
delete from counters where counted not in ('contacts', 'companies');

drop table copied_members;
drop table company_settlements;
drop table contact_removals;
drop table rule_versions;
alter table lists drop constraint lists_progress_of_a_fill;
alter table lists drop column fill_version;
alter table lists drop column filled_to;
alter table lists drop column is_copying;
