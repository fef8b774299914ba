/** Sends patients a mail when their appointment is confirmed. */
import { eq } from 'drizzle-orm'
import { createTransport } from 'nodemailer'
import { patients } from '../../drizzle/tables/patients.ts'
import { Appointment } from '../../schemas/appointments.ts'
import { defineConsumer } from '../consumers/definition.ts'

export const appointmentMails = defineConsumer({
  name: 'appointment-mails',
  types: ['appointments.updated'],
  schema: Appointment,
  async handle({ id, data, previous }, { database, log, settings }) {
    if (previous.status === undefined || data.status !== 'confirmed') return
    const [patient] = await database
      .select({ email: patients.email })
      .from(patients)
      .where(eq(patients.id, data.patient_id))
    if (!patient?.email) return
    await createTransport(settings.SMTP_URL).sendMail({
      from: 'clinic@example.com',
      to: patient.email,
      subject: 'Your appointment is confirmed',
      text: `It begins at ${data.starts_at}.`,
      messageId: `<${id}@example.com>`,
    })
    log.info({ appointment_id: data.id }, 'mail sent')
  },
})
