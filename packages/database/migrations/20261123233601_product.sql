-- Search runs on trigrams.
CREATE EXTENSION IF NOT EXISTS pg_trgm;--> statement-breakpoint
CREATE SEQUENCE "public"."event_sequence" INCREMENT BY 1 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1;--> statement-breakpoint
CREATE TABLE "account_links" (
	"id" uuid PRIMARY KEY NOT NULL,
	"kind" text COLLATE "C" NOT NULL,
	"subject" text COLLATE "C" NOT NULL,
	"email" text COLLATE "C" NOT NULL,
	"token_hash" text COLLATE "C" NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp(6) with time zone NOT NULL
);
--> statement-breakpoint
CREATE TABLE "mail_quotas" (
	"purpose" text COLLATE "C" NOT NULL,
	"recipient" text COLLATE "C" NOT NULL,
	"times" timestamp(6) with time zone[] NOT NULL,
	"expires_at" timestamp(6) with time zone NOT NULL,
	CONSTRAINT "mail_quotas_purpose_recipient_pk" PRIMARY KEY("purpose","recipient")
);
--> statement-breakpoint
CREATE TABLE "api_keys" (
	"id" uuid PRIMARY KEY NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"revision" bigint DEFAULT 1 NOT NULL,
	"user_id" uuid NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"prefix" text COLLATE "C" NOT NULL,
	"key_hash" text COLLATE "C" NOT NULL,
	"scopes" jsonb NOT NULL,
	"expires_at" timestamp(6) with time zone NOT NULL,
	"rate_limit" bigint,
	"last_used_at" timestamp(6) with time zone
);
--> statement-breakpoint
CREATE TABLE "sessions" (
	"id" uuid PRIMARY KEY NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"revision" bigint DEFAULT 1 NOT NULL,
	"user_id" uuid NOT NULL,
	"generation" bigint DEFAULT 0 NOT NULL,
	"refresh_hash" text COLLATE "C" NOT NULL,
	"rotations" timestamp(6) with time zone[] DEFAULT '{}' NOT NULL,
	"last_used_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"expires_at" timestamp(6) with time zone NOT NULL,
	"ends_at" timestamp(6) with time zone NOT NULL,
	"ip" text COLLATE "C",
	"user_agent" text COLLATE "C"
);
--> statement-breakpoint
CREATE TABLE "sign_in_addresses" (
	"address_hash" text COLLATE "C" PRIMARY KEY NOT NULL,
	"user_id" uuid NOT NULL,
	"signed_in_at" timestamp(6) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "user_identities" (
	"user_id" uuid NOT NULL,
	"issuer" text COLLATE "C" NOT NULL,
	"subject" text COLLATE "C" NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "user_identities_user_id_issuer_pk" PRIMARY KEY("user_id","issuer")
);
--> statement-breakpoint
CREATE TABLE "event_feed" (
	"id" bigint PRIMARY KEY DEFAULT 1 NOT NULL,
	"last_position" bigint DEFAULT 0 NOT NULL,
	"removed_position" bigint DEFAULT 0 NOT NULL,
	"removed_id" uuid DEFAULT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing substring(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid NOT NULL
);
--> statement-breakpoint
CREATE TABLE "events" (
	"id" uuid PRIMARY KEY DEFAULT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing substring(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid NOT NULL,
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
	"bytes" bigint DEFAULT 0 NOT NULL,
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
	"created_at" timestamp(6) with time zone DEFAULT clock_timestamp() NOT NULL,
	"bytes" bigint NOT NULL
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
	"last_duration_ms" bigint,
	"secret_box" text COLLATE "C" NOT NULL,
	"previous_secret_box" text COLLATE "C",
	"previous_secret_expires_at" timestamp(6) with time zone
);
--> statement-breakpoint
CREATE TABLE "webhook_replays" (
	"id" uuid PRIMARY KEY DEFAULT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing substring(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid NOT NULL,
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
CREATE TABLE "idempotency_keys" (
	"user_id" uuid NOT NULL,
	"id" text COLLATE "C" NOT NULL,
	"body_hash" text COLLATE "C" NOT NULL,
	"status" smallint NOT NULL,
	"location" text COLLATE "C",
	"etag" text COLLATE "C" NOT NULL,
	"body" text COLLATE "C" NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "idempotency_keys_user_id_id_pk" PRIMARY KEY("user_id","id")
);
--> statement-breakpoint
CREATE TABLE "user_profiles" (
	"id" uuid PRIMARY KEY NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"revision" bigint DEFAULT 1 NOT NULL,
	"user_id" uuid NOT NULL,
	"display_name" text COLLATE "C",
	"bio" text COLLATE "C",
	"avatar_url" text COLLATE "C",
	"website_url" text COLLATE "C",
	"location" text COLLATE "C",
	"time_zone" text COLLATE "C",
	"locale" text COLLATE "C",
	"search" text COLLATE "C" DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE TABLE "users" (
	"id" uuid PRIMARY KEY NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"revision" bigint DEFAULT 1 NOT NULL,
	"name" text COLLATE "C" NOT NULL,
	"email" text COLLATE "C" NOT NULL,
	"email_verified_at" timestamp(6) with time zone,
	"password_hash" text COLLATE "C",
	"role" text COLLATE "C" DEFAULT 'member' NOT NULL,
	"status" text COLLATE "C" DEFAULT 'active' NOT NULL,
	"search" text COLLATE "C" DEFAULT '' NOT NULL
);
--> statement-breakpoint
CREATE TABLE "work" (
	"id" uuid PRIMARY KEY DEFAULT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid()) placing substring(int8send((date_part('epoch', clock_timestamp()) * 1000)::bigint) from 3) from 1 for 6), 52, 1), 53, 1), 'hex')::uuid NOT NULL,
	"created_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(6) with time zone DEFAULT now() NOT NULL,
	"revision" bigint DEFAULT 1 NOT NULL,
	"kind" text COLLATE "C" NOT NULL,
	"key" text COLLATE "C",
	"payload" jsonb DEFAULT '{}'::jsonb NOT NULL,
	"status" text COLLATE "C" DEFAULT 'pending' NOT NULL,
	"attempts" bigint DEFAULT 0 NOT NULL,
	"next_attempt_at" timestamp(6) with time zone DEFAULT clock_timestamp(),
	"claim_id" uuid,
	"error" text COLLATE "C",
	"bytes" bigint DEFAULT 0 NOT NULL,
	"endpoint_id" uuid,
	"user_id" uuid,
	"event_id" uuid,
	"event_type" text COLLATE "C",
	"response_status" bigint,
	"response_body" text COLLATE "C",
	"duration_ms" bigint,
	"delivered_at" timestamp(6) with time zone,
	"replay_id" uuid
);
--> statement-breakpoint
ALTER TABLE "api_keys" ADD CONSTRAINT "api_keys_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sessions" ADD CONSTRAINT "sessions_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "sign_in_addresses" ADD CONSTRAINT "sign_in_addresses_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "user_identities" ADD CONSTRAINT "user_identities_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_endpoints" ADD CONSTRAINT "webhook_endpoints_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "webhook_replays" ADD CONSTRAINT "webhook_replays_endpoint_id_webhook_endpoints_id_fk" FOREIGN KEY ("endpoint_id") REFERENCES "public"."webhook_endpoints"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "idempotency_keys" ADD CONSTRAINT "idempotency_keys_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "user_profiles" ADD CONSTRAINT "user_profiles_user_id_users_id_fk" FOREIGN KEY ("user_id") REFERENCES "public"."users"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
ALTER TABLE "work" ADD CONSTRAINT "work_endpoint_id_webhook_endpoints_id_fk" FOREIGN KEY ("endpoint_id") REFERENCES "public"."webhook_endpoints"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE INDEX "account_links_subject" ON "account_links" USING btree ("subject");--> statement-breakpoint
CREATE INDEX "account_links_expires_at" ON "account_links" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "mail_quotas_expires_at" ON "mail_quotas" USING btree ("expires_at");--> statement-breakpoint
CREATE UNIQUE INDEX "api_keys_key_hash_unique" ON "api_keys" USING btree ("key_hash");--> statement-breakpoint
CREATE INDEX "api_keys_created_at" ON "api_keys" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "api_keys_user_id" ON "api_keys" USING btree ("user_id","created_at","id");--> statement-breakpoint
CREATE INDEX "sessions_created_at" ON "sessions" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "sessions_user_id" ON "sessions" USING btree ("user_id","created_at","id");--> statement-breakpoint
CREATE INDEX "sessions_expires_at" ON "sessions" USING btree ("expires_at");--> statement-breakpoint
CREATE INDEX "sign_in_addresses_user_id" ON "sign_in_addresses" USING btree ("user_id","signed_in_at");--> statement-breakpoint
CREATE INDEX "sign_in_addresses_signed_in_at" ON "sign_in_addresses" USING btree ("signed_in_at");--> statement-breakpoint
CREATE UNIQUE INDEX "user_identities_subject_unique" ON "user_identities" USING btree ("issuer","subject");--> statement-breakpoint
CREATE UNIQUE INDEX "events_position" ON "events" USING btree ("position");--> statement-breakpoint
CREATE INDEX "events_type" ON "events" USING btree ("type","position");--> statement-breakpoint
CREATE INDEX "events_resource_id" ON "events" USING btree ("resource_id","position");--> statement-breakpoint
CREATE INDEX "events_actor_id" ON "events" USING btree ("actor_id","position") WHERE "events"."actor_id" is not null;--> statement-breakpoint
CREATE INDEX "events_owner_id" ON "events" USING btree ("owner_id","position") WHERE "events"."owner_id" is not null;--> statement-breakpoint
CREATE INDEX "events_created_at" ON "events" USING btree ("created_at","position");--> statement-breakpoint
CREATE INDEX "webhook_endpoints_created_at" ON "webhook_endpoints" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "webhook_endpoints_user_id" ON "webhook_endpoints" USING btree ("user_id","created_at","id");--> statement-breakpoint
CREATE INDEX "webhook_replays_endpoint_id" ON "webhook_replays" USING btree ("endpoint_id","created_at","id");--> statement-breakpoint
CREATE INDEX "idempotency_keys_created_at" ON "idempotency_keys" USING btree ("created_at");--> statement-breakpoint
CREATE UNIQUE INDEX "user_profiles_user_id_unique" ON "user_profiles" USING btree ("user_id");--> statement-breakpoint
CREATE INDEX "user_profiles_created_at" ON "user_profiles" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "user_profiles_updated_at" ON "user_profiles" USING btree ("updated_at","id");--> statement-breakpoint
CREATE INDEX "user_profiles_display_name_asc" ON "user_profiles" USING btree ((coalesce('0' || "display_name", '1')),"id");--> statement-breakpoint
CREATE INDEX "user_profiles_display_name_desc" ON "user_profiles" USING btree ((coalesce("display_name", '')),"id");--> statement-breakpoint
CREATE INDEX "user_profiles_search" ON "user_profiles" USING gin ("search" gin_trgm_ops);--> statement-breakpoint
CREATE UNIQUE INDEX "users_email_unique" ON "users" USING btree ("email");--> statement-breakpoint
CREATE INDEX "users_created_at" ON "users" USING btree ("created_at","id");--> statement-breakpoint
CREATE INDEX "users_updated_at" ON "users" USING btree ("updated_at","id");--> statement-breakpoint
CREATE INDEX "users_name" ON "users" USING btree ("name","id");--> statement-breakpoint
CREATE INDEX "users_status" ON "users" USING btree ("status","created_at","id");--> statement-breakpoint
CREATE INDEX "users_role" ON "users" USING btree ("role","created_at","id");--> statement-breakpoint
CREATE INDEX "users_name_prefix" ON "users" USING btree (left(split_part("search", chr(10), 1), 300));--> statement-breakpoint
CREATE INDEX "users_email_prefix" ON "users" USING btree (left(split_part("search", chr(10), 2), 300));--> statement-breakpoint
CREATE INDEX "users_search" ON "users" USING gin ("search" gin_trgm_ops);--> statement-breakpoint
CREATE INDEX "work_due" ON "work" USING btree ("kind",coalesce("endpoint_id", '00000000-0000-0000-0000-000000000000'::uuid),"next_attempt_at") WHERE "work"."next_attempt_at" is not null;--> statement-breakpoint
CREATE UNIQUE INDEX "work_key" ON "work" USING btree ("kind","key") WHERE "work"."key" is not null;--> statement-breakpoint
CREATE INDEX "work_kind" ON "work" USING btree ("kind","id") WHERE "work"."kind" <> 'delivery';--> statement-breakpoint
CREATE INDEX "work_endpoint_id" ON "work" USING btree ("endpoint_id","created_at","id");--> statement-breakpoint
CREATE INDEX "work_status" ON "work" USING btree ("endpoint_id","status","created_at","id");--> statement-breakpoint
CREATE INDEX "work_replay_id" ON "work" USING btree ("replay_id") WHERE "work"."status" = 'pending' and "work"."duration_ms" is null and "work"."replay_id" is not null;