/** Words to make demo data of, drawn from faker once: asked for every row, it would take longer than the database. */
import type { Faker } from '@faker-js/faker'

/** A country in which some of the users live: how they are called, where they live, what they pay with. */
export interface Market {
  country: string
  currency: Currency
  locale: string
  zones: readonly string[]
  firstNames: readonly string[]
  lastNames: readonly string[]
  places: readonly Place[]
}

interface Place {
  line1: string
  city: string
  region: string | null
  postal_code: string
}

export type Currency = 'USD' | 'EUR' | 'GBP'
export type Country = 'US' | 'GB' | 'DE' | 'FR'

export interface Pools {
  markets: Readonly<Record<Country, Market>>
  goods: {
    departments: string[]
    adjectives: string[]
    materials: string[]
    things: string[]
    texts: string[]
  }
  titles: readonly string[]
  sentences: readonly string[]
  bios: readonly string[]
}

/** More than a reader sees side by side. */
const MANY = 400

/** Where people live, whom faker calls by the names of their country. */
const COUNTRIES = {
  US: {
    currency: 'USD',
    locale: 'en-US',
    zones: ['America/New_York', 'America/Chicago', 'America/Los_Angeles'],
  },
  GB: { currency: 'GBP', locale: 'en-GB', zones: ['Europe/London'] },
  DE: { currency: 'EUR', locale: 'de-DE', zones: ['Europe/Berlin'] },
  FR: { currency: 'EUR', locale: 'fr-FR', zones: ['Europe/Paris'] },
} as const satisfies Record<Country, Pick<Market, 'currency' | 'locale' | 'zones'>>

const list = (make: () => string): string[] =>
  Array.from({ length: MANY }, () => make().normalize('NFC').trim())

function market(country: Country, faker: Faker): Market {
  return {
    country,
    ...COUNTRIES[country],
    firstNames: list(() => faker.person.firstName()),
    lastNames: list(() => faker.person.lastName()),
    places: Array.from({ length: MANY }, () => ({
      line1: faker.location.streetAddress().normalize('NFC'),
      city: faker.location.city().normalize('NFC'),
      region: country === 'US' ? faker.location.state() : null,
      postal_code: faker.location.zipCode(),
    })),
  }
}

/** The pools of a seed. Loaded when needed: faker's own words take their time. */
export async function createPools(seed: number): Promise<Pools> {
  const [us, gb, de, fr] = await Promise.all([
    import('@faker-js/faker/locale/en_US'),
    import('@faker-js/faker/locale/en_GB'),
    import('@faker-js/faker/locale/de'),
    import('@faker-js/faker/locale/fr'),
  ])
  const { faker } = us
  for (const one of [us, gb, de, fr]) one.faker.seed(seed)
  return {
    markets: {
      US: market('US', us.faker),
      GB: market('GB', gb.faker),
      DE: market('DE', de.faker),
      FR: market('FR', fr.faker),
    },
    goods: {
      departments: list(() => faker.commerce.department()),
      adjectives: list(() => faker.commerce.productAdjective()),
      materials: list(() => faker.commerce.productMaterial()),
      things: list(() => faker.commerce.product()),
      texts: list(() => faker.commerce.productDescription()),
    },
    titles: list(() => faker.company.catchPhrase()),
    sentences: list(() => faker.hacker.phrase()),
    bios: list(() => faker.person.bio()),
  }
}
