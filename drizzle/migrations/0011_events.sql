CREATE SEQUENCE "public"."event_sequence" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1;--> statement-breakpoint
CREATE TABLE "event_feed" (
	"id" bigint PRIMARY KEY DEFAULT 1 NOT NULL,
	"last_position" bigint DEFAULT 0 NOT NULL,
	"removed_position" bigint DEFAULT 0 NOT NULL
);
--> statement-breakpoint
CREATE TABLE "events" (
	"id" uuid PRIMARY KEY DEFAULT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid NOT NULL,
	"position" bigint NOT NULL,
	"resource_type" text COLLATE "C" NOT NULL,
	"type" text COLLATE "C" NOT NULL,
	"resource_id" uuid NOT NULL,
	"revision" bigint NOT NULL,
	"columns" json NOT NULL,
	"previous" json,
	"owner_id" uuid,
	"actor_id" uuid,
	"credential" text COLLATE "C" NOT NULL,
	"credential_id" uuid,
	"request_id" text COLLATE "C",
	"created_at" timestamp(6) with time zone DEFAULT clock_timestamp() NOT NULL,
	"updated_at" timestamp(6) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "outbox" (
	"sequence" bigint PRIMARY KEY DEFAULT nextval('event_sequence') NOT NULL,
	"type" text COLLATE "C" NOT NULL,
	"resource_id" uuid NOT NULL,
	"revision" bigint NOT NULL,
	"columns" json NOT NULL,
	"previous" json,
	"owner_id" uuid,
	"actor_id" uuid,
	"credential" text COLLATE "C" NOT NULL,
	"credential_id" uuid,
	"request_id" text COLLATE "C",
	"created_at" timestamp(6) with time zone DEFAULT clock_timestamp() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "webhook_deliveries" (
	"id" uuid PRIMARY KEY DEFAULT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing substring(int8send((extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"revision" bigint DEFAULT 1 NOT NULL,
	"endpoint_id" uuid NOT NULL,
	"user_id" uuid NOT NULL,
	"event_id" uuid NOT NULL,
	"event_type" text COLLATE "C" NOT NULL,
	"status" text COLLATE "C" DEFAULT 'pending' NOT NULL,
	"attempts" bigint DEFAULT 0 NOT NULL,
	"next_attempt_at" timestamp(6) with time zone,
	"response_status" bigint,
	"response_body" text COLLATE "C",
	"error" text COLLATE "C",
	"duration_ms" bigint,
	"delivered_at" timestamp(6) with time zone
);
--> statement-breakpoint
CREATE TABLE "webhook_endpoints" (
	"id" uuid PRIMARY KEY NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"revision" bigint DEFAULT 1 NOT NULL,
	"user_id" uuid NOT NULL,
	"url" text COLLATE "C" NOT NULL,
	"event_types" jsonb NOT NULL,
	"description" text COLLATE "C",
	"api_version" bigint NOT NULL,
	"status" text COLLATE "C" DEFAULT 'enabled' NOT NULL,
	"disabled_reason" text COLLATE "C",
	"failing_since" timestamp(6) with time zone,
	"last_delivered_at" timestamp(6) with time zone,
	"secret_box" text COLLATE "C" NOT NULL,
	"previous_secret_box" text COLLATE "C",
	"previous_secret_expires_at" timestamp(6) with time zone
);
--> statement-breakpoint
ALTER TABLE "webhook_deliveries" ADD CONSTRAINT "webhook_deliveries_endpoint_id_webhook_endpoints_id_fk" FOREIGN KEY ("endpoint_id") REFERENCES "public"."webhook_endpoints"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD CONSTRAINT "webhook_endpoints_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "events_position" ON "events" USING btree ("position");--> statement-breakpoint
CREATE INDEX "events_resource_type" ON "events" USING btree ("resource_type","position");--> statement-breakpoint
CREATE INDEX "events_resource_id" ON "events" USING btree ("resource_id","position");--> statement-breakpoint
CREATE INDEX "events_actor_id" ON "events" USING btree ("actor_id","position") WHERE "events"."actor_id" is not null;--> statement-breakpoint
CREATE INDEX "events_owner_id" ON "events" USING btree ("owner_id","position") WHERE "events"."owner_id" is not null;--> statement-breakpoint
CREATE INDEX "events_created_at" ON "events" USING btree ("created_at","position");--> statement-breakpoint
CREATE INDEX "webhook_deliveries_endpoint_id" ON "webhook_deliveries" USING btree ("endpoint_id","created_at","id");--> statement-breakpoint
CREATE INDEX "webhook_deliveries_status" ON "webhook_deliveries" USING btree ("endpoint_id","status","created_at","id");--> statement-breakpoint
CREATE INDEX "webhook_deliveries_pending" ON "webhook_deliveries" USING btree ("endpoint_id","next_attempt_at") WHERE "webhook_deliveries"."status" = 'pending';--> statement-breakpoint
CREATE INDEX "webhook_endpoints_created_at" ON "webhook_endpoints" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "webhook_endpoints_user_id" ON "webhook_endpoints" USING btree ("user_id","created_at","id");