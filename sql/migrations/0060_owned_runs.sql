-- oldest release: 1.1.0
-- A job or import belongs to one message of the queue while a turn works at it.

comment on column jobs.turn is
  'Message of the turn that works at the job. Only that message may take the job again, after its worker has died. Null: the job is free.';
