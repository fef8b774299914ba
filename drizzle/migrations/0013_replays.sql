CREATE TABLE "webhook_replays" (
	"id" uuid PRIMARY KEY DEFAULT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"revision" bigint DEFAULT 1 NOT NULL,
	"endpoint_id" uuid NOT NULL,
	"user_id" uuid NOT NULL,
	"since" timestamp(6) with time zone NOT NULL,
	"until" timestamp(6) with time zone NOT NULL,
	"status" text COLLATE "C" DEFAULT 'failed' NOT NULL,
	"total" bigint NOT NULL,
	"queued" bigint DEFAULT 0 NOT NULL,
	"sent" bigint DEFAULT 0 NOT NULL,
	"reached_at" timestamp(6) with time zone,
	"completed_at" timestamp(6) with time zone
);
--> statement-breakpoint
ALTER TABLE "webhook_deliveries" ADD COLUMN "replay_id" uuid;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD COLUMN "last_duration_ms" bigint;--> statement-breakpoint
ALTER TABLE "webhook_replays" ADD CONSTRAINT "webhook_replays_endpoint_id_webhook_endpoints_id_fk" FOREIGN KEY ("endpoint_id") REFERENCES "public"."webhook_endpoints"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "webhook_replays_endpoint_id" ON "webhook_replays" USING btree ("endpoint_id","created_at","id");--> statement-breakpoint
CREATE INDEX "webhook_replays_open" ON "webhook_replays" USING btree ("id") WHERE "webhook_replays"."completed_at" is null;