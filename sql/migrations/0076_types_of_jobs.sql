-- oldest release: 1.1.0
-- The service knows the types of jobs. An older release neither runs nor shows a job of a type that it does not know.

alter table jobs drop constraint jobs_type_known;
