-- They limit the mails of an hour; when the latest one expires is not known.
DELETE FROM "mail_quotas";--> statement-breakpoint
DROP INDEX "account_links_subject_unique";--> statement-breakpoint
DROP INDEX "mail_quotas_updated_at";--> statement-breakpoint
ALTER TABLE "mail_quotas" ADD COLUMN "expires_at" timestamp(6) with time zone NOT NULL;--> statement-breakpoint
CREATE INDEX "account_links_subject" ON "account_links" USING btree ("subject");--> statement-breakpoint
CREATE INDEX "mail_quotas_expires_at" ON "mail_quotas" USING btree ("expires_at");--> statement-breakpoint
ALTER TABLE "account_links" DROP COLUMN "wrong_tokens";--> statement-breakpoint
ALTER TABLE "mail_quotas" DROP COLUMN "updated_at";