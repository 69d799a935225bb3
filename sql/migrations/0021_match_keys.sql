-- no-transaction
-- oldest release: 1.0.0
-- Finds people of the catalog who are the same as somebody else. The index of names has a hash, because three names can be
-- longer than an index entry may be.

alter table prospects add column if not exists match_keys text[] collate "C";
comment on column prospects.match_keys is
  'By which the person is found as the same as somebody else: the URL of the profile and the e-mail addresses, as the service compares them. Null if an earlier release wrote the person: `catalog reindex` computes it.';
create index concurrently if not exists prospects_match_keys on prospects using gin (match_keys);
create index concurrently if not exists prospects_names on prospects
  (hashtextextended(last_name || chr(10) || first_name || chr(10) || job_company_name, 0));
analyze prospects;
