-- no-transaction
-- oldest release: 1.1.0
-- Today shows the open tasks and opportunities of one person, and the board can show those of one person by stage.

create index concurrently if not exists activities_tasks_of_user on activities (customer_id, assigned_to, due_at)
  where type = 'task' and done_at is null;
create index concurrently if not exists opportunities_of_user on opportunities (customer_id, user_id_assigned, stage_id, id);
