DROP INDEX "user_profiles_display_name_asc";--> statement-breakpoint
CREATE INDEX "user_profiles_display_name_asc" ON "user_profiles" USING btree ((coalesce('0' || "display_name", '1')),"id");