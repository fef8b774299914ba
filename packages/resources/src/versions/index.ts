/** The face for versions in which resources have other fields. */
export { mapResources, type ResourceMapping } from './map-resources.ts'
