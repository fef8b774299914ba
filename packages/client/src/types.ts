/**
 * Types of a collection, derived from the paths of an OpenAPI document: the `Paths` of each type are those that
 * openapi-typescript writes. What every application has alike is typed by the document of the example.
 */
import type { paths } from './openapi.ts'

/** The path of one resource of a collection. */
export type MemberPath<P extends string> = `${P}/{id}`

/** The paths of the document that are collections: those that have members. */
export type CollectionPath<Paths> = {
  [P in keyof Paths & string]: MemberPath<P> extends keyof Paths ? P : never
}[keyof Paths & string]

type OperationAt<Paths, P, M> = P extends keyof Paths
  ? M extends keyof Paths[P]
    ? Exclude<Paths[P][M], undefined>
    : never
  : never

type JsonContent<T> = T extends { content: { 'application/json': infer Body } } ? Body : never

type ResponseAt<Paths, P, M, Status extends number> =
  OperationAt<Paths, P, M> extends { responses: { [S in Status]: infer R } } ? JsonContent<R> : never

/** What the response to an operation contains. */
export type ResponseData<Paths, P, M, Status extends number> =
  ResponseAt<Paths, P, M, Status> extends { data: infer Data } ? Data : never

type QueryAt<Paths, P, M> =
  OperationAt<Paths, P, M> extends { parameters: { query?: infer Query } } ? Exclude<Query, undefined> : never

type NameIn<Query> = Query extends unknown ? keyof Query : never

/** The options of a write, with `dryRun` only where the document has the parameter. */
export type OptionsAt<Paths, P extends string, M, Options> =
  'dry_run' extends NameIn<QueryAt<Paths, P, M>> ? Options : Omit<Options, 'dryRun'>

type BodyAt<Paths, P, M> =
  OperationAt<Paths, P, M> extends { requestBody?: infer Body }
    ? JsonContent<Exclude<Body, undefined>>
    : never

type Items<T> = T extends readonly (infer Item)[] ? Item : never

/** The names of an array parameter of single reads: `fields` or `include`. */
type NamesOf<Paths, P extends string, Parameter extends string> =
  QueryAt<Paths, MemberPath<P>, 'get'> extends { [Name in Parameter]?: infer Names } ? Items<Names> : never

type ReadData<Paths, P extends string> = ResponseData<Paths, MemberPath<P>, 'get', 200>

/** The names of the fields of a resource. */
export type FieldName<Paths, P extends string> = NamesOf<Paths, P, 'fields'> & keyof ReadData<Paths, P>

/** The names of the relations that `include` accepts. */
export type RelationName<Paths, P extends string> = NamesOf<Paths, P, 'include'> & keyof ReadData<Paths, P>

/** Shows the members of an intersection as one object in editors. */
type Flat<T> = { [K in keyof T]: T[K] }

/**
 * A resource with the given fields (`id` is always present) and included relations. The document declares fields and
 * relations as optional where a query can leave them out; here the query is known.
 */
export type Resource<
  Paths,
  P extends string,
  Fields extends FieldName<Paths, P> = FieldName<Paths, P>,
  Relations extends RelationName<Paths, P> = never,
> = Flat<{
  [Name in Fields | Relations | ('id' & keyof ReadData<Paths, P>)]-?: Exclude<
    ReadData<Paths, P>[Name],
    undefined
  >
}>

/** The body that creates a resource. */
export type CreateBody<Paths, P extends string> = BodyAt<Paths, P, 'post'>

/** What the response to a creation contains. */
export type Created<Paths, P extends string> = ResponseData<Paths, P, 'post', 201>

/** The body that replaces a resource. */
export type ReplaceBody<Paths, P extends string> = BodyAt<Paths, MemberPath<P>, 'put'>

/** The changes of an update: a JSON Merge Patch (RFC 7396). */
export type UpdateBody<Paths, P extends string> = BodyAt<Paths, MemberPath<P>, 'patch'>

/** What the response to an update contains, where there is no query that selects fields. */
export type Updated<Paths, P extends string> = ResponseData<Paths, MemberPath<P>, 'patch', 200>

/** Fields and relations to return. */
export interface Selection<
  Paths,
  P extends string,
  Fields extends FieldName<Paths, P> = FieldName<Paths, P>,
  Relations extends RelationName<Paths, P> = RelationName<Paths, P>,
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
  Paths,
  P extends string,
  Fields extends FieldName<Paths, P> = FieldName<Paths, P>,
  Relations extends RelationName<Paths, P> = RelationName<Paths, P>,
> = Parameters<Omit<QueryAt<Paths, P, 'get'>, 'fields' | 'include'>> & Selection<Paths, P, Fields, Relations>

/** The query of an export: that of a list, without pages and relations. */
export type ExportQuery<
  Paths,
  P extends string,
  Fields extends FieldName<Paths, P> = FieldName<Paths, P>,
> = Omit<ListQuery<Paths, P, Fields>, 'limit' | 'cursor' | 'page' | 'include'>

type AggregatePath<P extends string> = `${P}/aggregates`

type AggregateParameters<Paths, P extends string> =
  OperationAt<Paths, AggregatePath<P>, 'get'> extends { parameters: { query: infer Query } } ? Query : never

type AggregateNames<Paths, P extends string, Parameter extends string> =
  AggregateParameters<Paths, P> extends { [Name in Parameter]?: infer Names } ? Items<Names> : never

/** The names of the measures of a collection, such as `sum:total_amount`. */
export type MeasureName<Paths, P extends string> = AggregateNames<Paths, P, 'measures'>

/** What a collection is grouped by, such as `status` or `created_at:day`. */
export type GroupName<Paths, P extends string> = AggregateNames<Paths, P, 'group_by'>

/** The query of aggregates: measures, groups, and the filters of the list. */
export type AggregateQuery<
  Paths,
  P extends string,
  Measures extends MeasureName<Paths, P> = MeasureName<Paths, P>,
  Groups extends GroupName<Paths, P> = GroupName<Paths, P>,
> = Parameters<Omit<AggregateParameters<Paths, P>, 'measures' | 'group_by'>> & {
  measures: readonly Measures[]
  group_by?: readonly Groups[]
}

type Entry<Paths, P extends string> =
  ResponseAt<Paths, AggregatePath<P>, 'get', 200> extends { data: infer Data } ? Items<Data> : never

/** The fields of `sum:total_amount` with the function `sum`, or of `created_at:day` with any unit. */
type MeasuredField<Name, Function extends string> = Name extends `${Function}:${infer Field}` ? Field : never
type GroupField<Name> = Name extends `${infer Field}:${string}` ? Field : Name

type Present<T, Names> = { [K in Extract<keyof T, Names>]-?: Exclude<T[K], undefined> }
type Part<T, Name extends keyof T> = Exclude<T[Name], undefined>

/** A group with the measures of a query. */
export type Aggregate<Paths, P extends string, Measures, Groups> = Flat<
  { group: Present<Part<Entry<Paths, P>, 'group' & keyof Entry<Paths, P>>, GroupField<Groups>> } & Present<
    Entry<Paths, P>,
    Extract<Measures, 'count'>
  > & {
      [Name in Exclude<keyof Entry<Paths, P>, 'group' | 'count'> & string as MeasuredField<
        Measures,
        Name
      > extends never
        ? never
        : Name]: Present<Part<Entry<Paths, P>, Name>, MeasuredField<Measures, Name>>
    }
>

/** The pagination of a page: by cursor, or by page number if the query has `page`. */
export type Pagination<Paths, P extends string> =
  ResponseAt<Paths, P, 'get', 200> extends { pagination: infer Value } ? Value : never

/** The metadata of a response, for example which included lists are incomplete. */
export type Meta =
  ResponseAt<paths, '/api/v1/users', 'get', 200> extends { meta: infer Value } ? Value : never

/** The results of a batch. */
export type Batch = ResponseData<paths, '/api/v1/batches', 'post', 200>

/** The body of `POST /tokens`. */
export type Grant = BodyAt<paths, '/api/v1/tokens', 'post'>

/** The tokens of a response to `POST /tokens`. */
export type Token = ResponseData<paths, '/api/v1/tokens', 'post', 201>

type ErrorBody = ResponseAt<paths, '/api/v1/users/{id}', 'patch', 400 | 409 | 412 | 422>['error']

/** The codes of errors, and those that a newer server may have. */
export type ErrorCode = ErrorBody['code'] | (string & {})

/** A field or parameter that the server rejected. */
export type FieldError = Items<Exclude<ErrorBody['details'], undefined>>

/** The methods that a collection has in the document. */
export type MethodName<Paths, P extends string> =
  | (OperationAt<Paths, P, 'get'> extends never ? never : 'list')
  // A list that can be exported has this header.
  | (OperationAt<Paths, P, 'get'> extends {
      responses: { 200: { headers: { 'Content-Disposition': unknown } } }
    }
      ? 'export' | 'exportStream'
      : never)
  | (OperationAt<Paths, AggregatePath<P>, 'get'> extends never ? never : 'aggregate')
  | (OperationAt<Paths, P, 'post'> extends never ? never : 'create')
  | (OperationAt<Paths, MemberPath<P>, 'get'> extends never ? never : 'get')
  | (OperationAt<Paths, MemberPath<P>, 'put'> extends never ? never : 'replace')
  | (OperationAt<Paths, MemberPath<P>, 'patch'> extends never ? never : 'update' | 'edit')
  | (OperationAt<Paths, MemberPath<P>, 'delete'> extends never ? never : 'delete')
  | (OperationAt<Paths, `${MemberPath<P>}/restores`, 'post'> extends never ? never : 'restore')
