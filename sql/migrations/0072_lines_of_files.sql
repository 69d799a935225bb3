-- oldest release: 1.1.0
-- The number of lines of a file tells how many records it can have at most, before it is read.

alter table imports add column line_count integer;
comment on column imports.line_count is 'Of a text: its lines, an upper bound of its records. Null before the file is there, and of workbooks.';
