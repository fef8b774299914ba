/** The names and texts that demo rows are made of. All are in normalization form NFC, as the API stores them. */

const split = (text: string): string[] => text.split(', ')

const parseCities = (text: string) =>
  split(text).map((entry) => {
    const [city = '', postal_code = '', region = null] = entry.split('|')
    return { city, postal_code, region }
  })

/** The names, addresses and currency of the users of each country. */
export const markets = {
  US: {
    country: 'US',
    currency: 'USD',
    locale: 'en-US',
    zones: ['America/New_York', 'America/Chicago', 'America/Los_Angeles'],
    firstNames: split(
      'James, Mary, Robert, Patricia, John, Jennifer, Michael, Linda, David, Elizabeth, Carlos, Maria, Daniel, Nancy, Luis, Lisa, Anthony, Aaliyah, Mark, Sandra, Steven, Ashley, Brian, Emily, Kevin, Donna, Joshua, Karen',
    ),
    lastNames: split(
      "Smith, Johnson, Williams, Brown, Jones, Garcia, Miller, Davis, Rodriguez, Martinez, Hernandez, Lopez, Wilson, Anderson, Taylor, Moore, Lee, Thompson, White, Clark, Lewis, Walker, Young, Nguyen, Green, Adams, O'Neal",
    ),
    streets: split('Main Street, Oak Avenue, Maple Street, Park Avenue, Cedar Lane, Elm Street'),
    isNumberFirst: true,
    cities: parseCities('New York|10001|New York, Chicago|60614|Illinois, Portland|97205|Oregon'),
  },
  GB: {
    country: 'GB',
    currency: 'GBP',
    locale: 'en-GB',
    zones: ['Europe/London'],
    firstNames: split('Oliver, Olivia, George, Amelia, Harry, Isla, Noah, Ava, Jack, Emily, Leo, Freya'),
    lastNames: split('Smith, Jones, Taylor, Brown, Williams, Wilson, Johnson, Davies, Patel, Robinson'),
    streets: split('High Street, Station Road, Church Lane, Victoria Road, Mill Lane, Queens Road'),
    isNumberFirst: true,
    cities: parseCities('London|SW1Y 4JH, Manchester|M1 4BT, Leeds|LS1 4DY, Bristol|BS1 5TR'),
  },
  DE: {
    country: 'DE',
    currency: 'EUR',
    locale: 'de-DE',
    zones: ['Europe/Berlin'],
    firstNames: split('Lukas, Anna, Jürgen, Sabine, Finn, Emma, Jonas, Mia, Stefan, Petra, Björn, Zoë'),
    lastNames: split('Müller, Schmidt, Schneider, Fischer, Weber, Meyer, Wagner, Becker, Schulz, Hoffmann'),
    streets: split('Hauptstraße, Bahnhofstraße, Gartenweg, Schulstraße, Lindenallee, Bergstraße'),
    isNumberFirst: false,
    cities: parseCities('Berlin|10115, München|80331, Köln|50667, Hamburg|20095, Leipzig|04109'),
  },
  FR: {
    country: 'FR',
    currency: 'EUR',
    locale: 'fr-FR',
    zones: ['Europe/Paris'],
    firstNames: split('Gabriel, Jade, Léo, Louise, Raphaël, Chloé, Hugo, Inès, Éloïse, Mathéo, Lucas'),
    lastNames: split('Martin, Bernard, Dubois, Thomas, Robert, Richard, Petit, Durand, Leroy, Moreau'),
    streets: split('rue de la Paix, avenue de la République, rue des Écoles, place du Marché'),
    isNumberFirst: true,
    cities: parseCities('Paris|75011, Lyon|69002, Marseille|13001, Toulouse|31000, Nantes|44000'),
  },
} as const

export type Market = (typeof markets)[keyof typeof markets]

export const goods = {
  departments: split('Books, Games, Garden, Kitchen, Music, Office, Outdoor, Sports, Tools, Toys, Baby'),
  adjectives: split(
    'Compact, Elegant, Ergonomic, Foldable, Fresh, Generic, Handmade, Heavy, Incredible, Intelligent, Large, Light, Luxurious, Modern, Practical, Quiet, Recycled, Refined, Rustic, Sleek, Small, Soft, Sturdy, Waterproof',
  ),
  materials: split('Aluminum, Bamboo, Bronze, Ceramic, Concrete, Cork, Cotton, Felt, Glass, Gold'),
  things: split(
    'Backpack, Basket, Bench, Bicycle, Blanket, Bottle, Bowl, Chair, Clock, Computer, Cup, Desk, Fan, Gloves, Hat, Headphones, Keyboard, Knife, Lamp, Mirror, Mug, Notebook, Pan, Pillow, Radio, Shelf, Sofa, Table, Teapot, Towels, Umbrella, Wallet, Watch',
  ),
  texts: [
    'Made to last: tested for ten thousand hours.',
    'The new edition, with a longer warranty and a smaller package.',
    'Easy to clean and ready to use.',
    'Designed in the north, built by hand, delivered in two days.',
    'A gift for everybody who has everything.',
    'Fits in every bag. Comes in three colors.',
    'Repairable: every part can be ordered for ten years.',
    'From recycled sources, without glue and without plastic.',
  ],
}

export const prose = {
  topics: split('Databases, Queues, Caches, Indexes, Webhooks, Backups, Deployments, Migrations'),
  themes: split('for beginners, without fear, in ten minutes, at night, in small teams, on a budget'),
  subjects: split('The server, A good friend, Our team, The old printer, Every second customer'),
  predicates: split('waits for an answer, never sleeps, asks for more coffee, compresses the evening'),
  occupations: split('developer, gardener, teacher, photographer, cook, engineer, musician, librarian'),
  traits: split('curious, patient, mostly offline, always on time, fond of maps, learning to sail'),
}
