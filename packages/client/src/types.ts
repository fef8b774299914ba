/** Types of a collection, derived from the paths of the OpenAPI document. */
import type { paths } from './openapi.ts'

type Path = keyof paths

/** The path of one resource of a collection. */
export type MemberPath<P extends string> = `${P}/{id}`

/** The paths of the document that are collections: those that have members. */
export type CollectionPath = { [P in Path]: MemberPath<P> extends Path ? P : never }[Path]

type OperationAt<P, M> = P extends Path
  ? M extends keyof paths[P]
    ? Exclude<paths[P][M], undefined>
    : never
  : never

type JsonContent<T> = T extends { content: { 'application/json': infer Body } } ? Body : never

type ResponseAt<P, M, Status extends number> =
  OperationAt<P, M> extends { responses: { [S in Status]: infer R } } ? JsonContent<R> : never

type QueryAt<P, M> =
  OperationAt<P, M> extends { parameters: { query?: infer Query } } ? Exclude<Query, undefined> : never

type NameIn<Query> = Query extends unknown ? keyof Query : never

/** The options of a write, with `dryRun` only where the document has the parameter. */
export type OptionsAt<P extends string, M, Options> =
  'dry_run' extends NameIn<QueryAt<P, M>> ? Options : Omit<Options, 'dryRun'>

type BodyAt<P, M> =
  OperationAt<P, M> extends { requestBody?: infer Body } ? JsonContent<Exclude<Body, undefined>> : never

type Items<T> = T extends readonly (infer Item)[] ? Item : never

/** The names of an array parameter of single reads: `fields` or `include`. */
type NamesOf<P extends string, Parameter extends string> =
  QueryAt<MemberPath<P>, 'get'> extends { [Name in Parameter]?: infer Names } ? Items<Names> : never

type ReadData<P extends string> =
  ResponseAt<MemberPath<P>, 'get', 200> extends { data: infer Data } ? Data : never

/** The names of the fields of a resource. */
export type FieldName<P extends string> = NamesOf<P, 'fields'> & keyof ReadData<P>

/** The names of the relations that `include` accepts. */
export type RelationName<P extends string> = NamesOf<P, 'include'> & keyof ReadData<P>

/** Shows the members of an intersection as one object in editors. */
type Flat<T> = { [K in keyof T]: T[K] }

/**
 * A resource with the given fields (`id` is always present) and included relations. The document declares fields and
 * relations as optional where a query can leave them out; here the query is known.
 */
export type Resource<
  P extends string,
  Fields extends FieldName<P> = FieldName<P>,
  Relations extends RelationName<P> = never,
> = Flat<{
  [Name in Fields | Relations | ('id' & keyof ReadData<P>)]-?: Exclude<ReadData<P>[Name], undefined>
}>

/** The body that creates a resource. */
export type CreateBody<P extends string> = BodyAt<P, 'post'>

/** What the response to a creation contains. */
export type Created<P extends string> = ResponseAt<P, 'post', 201> extends { data: infer Data } ? Data : never

/** The body that replaces a resource. */
export type ReplaceBody<P extends string> = BodyAt<MemberPath<P>, 'put'>

/** The changes of an update: a JSON Merge Patch (RFC 7396). */
export type UpdateBody<P extends string> = BodyAt<MemberPath<P>, 'patch'>

/** What the response to an update contains, where there is no query that selects fields. */
export type Updated<P extends string> =
  ResponseAt<MemberPath<P>, 'patch', 200> extends { data: infer Data } ? Data : never

/** Fields and relations to return. */
export interface Selection<
  P extends string,
  Fields extends FieldName<P> = FieldName<P>,
  Relations extends RelationName<P> = RelationName<P>,
> {
  /** The fields to return, in addition to `id`; by default all. */
  fields?: readonly Fields[]
  /** The related resources to include; by default none. */
  include?: readonly Relations[]
}

/** A parameter that takes several values takes a single one too. */
type OneOrMore<T> = T extends readonly (infer Value)[] ? Value | readonly Value[] : T

type Parameters<Query> = { [Name in keyof Query]: OneOrMore<Query[Name]> }

/** The query of a list: filters, sorts, search and pagination as the document describes them. */
export type ListQuery<
  P extends string,
  Fields extends FieldName<P> = FieldName<P>,
  Relations extends RelationName<P> = RelationName<P>,
> = Parameters<Omit<QueryAt<P, 'get'>, 'fields' | 'include'>> & Selection<P, Fields, Relations>

/** The query of an export: that of a list, without pages and relations. */
export type ExportQuery<P extends string, Fields extends FieldName<P> = FieldName<P>> = Omit<
  ListQuery<P, Fields>,
  'limit' | 'cursor' | 'page' | 'include'
>

type AggregatePath<P extends string> = `${P}/aggregates`

type AggregateParameters<P extends string> =
  OperationAt<AggregatePath<P>, 'get'> extends { parameters: { query: infer Query } } ? Query : never

type AggregateNames<P extends string, Parameter extends string> =
  AggregateParameters<P> extends { [Name in Parameter]?: infer Names } ? Items<Names> : never

/** The names of the measures of a collection, such as `sum:total_amount`. */
export type MeasureName<P extends string> = AggregateNames<P, 'measures'>

/** What a collection is grouped by, such as `status` or `created_at:day`. */
export type GroupName<P extends string> = AggregateNames<P, 'group_by'>

/** The query of aggregates: measures, groups, and the filters of the list. */
export type AggregateQuery<
  P extends string,
  Measures extends MeasureName<P> = MeasureName<P>,
  Groups extends GroupName<P> = GroupName<P>,
> = Parameters<Omit<AggregateParameters<P>, 'measures' | 'group_by'>> & {
  measures: readonly Measures[]
  group_by?: readonly Groups[]
}

type Entry<P extends string> =
  ResponseAt<AggregatePath<P>, 'get', 200> extends { data: infer Data } ? Items<Data> : never

/** The fields of `sum:total_amount` with the function `sum`, or of `created_at:day` with any unit. */
type MeasuredField<Name, Function extends string> = Name extends `${Function}:${infer Field}` ? Field : never
type GroupField<Name> = Name extends `${infer Field}:${string}` ? Field : Name

type Present<T, Names> = { [K in Extract<keyof T, Names>]-?: Exclude<T[K], undefined> }
type Part<T, Name extends keyof T> = Exclude<T[Name], undefined>

/** A group with the measures of a query. */
export type Aggregate<P extends string, Measures, Groups> = Flat<
  { group: Present<Part<Entry<P>, 'group' & keyof Entry<P>>, GroupField<Groups>> } & Present<
    Entry<P>,
    Extract<Measures, 'count'>
  > & {
      [Name in Exclude<keyof Entry<P>, 'group' | 'count'> & string as MeasuredField<
        Measures,
        Name
      > extends never
        ? never
        : Name]: Present<Part<Entry<P>, Name>, MeasuredField<Measures, Name>>
    }
>

/** The pagination of a page: by cursor, or by page number if the query has `page`. */
export type Pagination<P extends string> =
  ResponseAt<P, 'get', 200> extends { pagination: infer Value } ? Value : never

/** The metadata of a response, for example which included lists are incomplete. */
export type Meta = ResponseAt<'/api/v1/users', 'get', 200> extends { meta: infer Value } ? Value : never

/** The results of a batch. */
export type Batch = ResponseAt<'/api/v1/batches', 'post', 200> extends { data: infer Data } ? Data : never

/** The body of `POST /tokens`. */
export type Grant = BodyAt<'/api/v1/tokens', 'post'>

/** The tokens of a response to `POST /tokens`. */
export type Token = ResponseAt<'/api/v1/tokens', 'post', 201> extends { data: infer Data } ? Data : never

type ErrorBody = ResponseAt<'/api/v1/users/{id}', 'patch', 400 | 409 | 412 | 422>['error']

/** The codes of errors, and those that a newer server may have. */
export type ErrorCode = ErrorBody['code'] | (string & {})

/** A field or parameter that the server rejected. */
export type FieldError = Items<Exclude<ErrorBody['details'], undefined>>

/** The methods that a collection has in the document. */
export type MethodName<P extends string> =
  | (OperationAt<P, 'get'> extends never ? never : 'list')
  // A list that can be exported has this header.
  | (OperationAt<P, 'get'> extends { responses: { 200: { headers: { 'Content-Disposition': unknown } } } }
      ? 'export' | 'exportStream'
      : never)
  | (OperationAt<AggregatePath<P>, 'get'> extends never ? never : 'aggregate')
  | (OperationAt<P, 'post'> extends never ? never : 'create')
  | (OperationAt<MemberPath<P>, 'get'> extends never ? never : 'get')
  | (OperationAt<MemberPath<P>, 'put'> extends never ? never : 'replace')
  | (OperationAt<MemberPath<P>, 'patch'> extends never ? never : 'update' | 'edit')
  | (OperationAt<MemberPath<P>, 'delete'> extends never ? never : 'delete')
  | (OperationAt<`${MemberPath<P>}/restores`, 'post'> extends never ? never : 'restore')
