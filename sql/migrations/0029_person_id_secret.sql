-- oldest release: 1.0.0
-- A secret of this installation. From it and the e-mail address the id of an imported person without profile URL is
-- computed. A plain hash of the address would tell it to whoever guesses it.
alter table catalog_state add column person_id_secret bytea;
-- Two random UUIDs have 244 random bits.
update catalog_state set person_id_secret = sha256(uuid_send((select gen_random_uuid())) || uuid_send((select gen_random_uuid())));
alter table catalog_state alter column person_id_secret set not null;
