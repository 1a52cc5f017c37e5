// Spring Data Cosmos: an application context with a repository, as such programs have it.

package conformance;

import static conformance.Expect.equal;
import static conformance.Expect.that;

import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.models.PartitionKey;
import com.azure.spring.data.cosmos.config.AbstractCosmosConfiguration;
import com.azure.spring.data.cosmos.core.CosmosTemplate;
import com.azure.spring.data.cosmos.core.mapping.Container;
import com.azure.spring.data.cosmos.core.query.CosmosPageRequest;
import com.azure.spring.data.cosmos.repository.CosmosRepository;
import com.azure.spring.data.cosmos.repository.Query;
import com.azure.spring.data.cosmos.repository.config.EnableCosmosRepositories;
import java.util.List;
import java.util.stream.IntStream;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.ComponentScan.Filter;
import org.springframework.context.annotation.FilterType;
import org.springframework.data.annotation.Id;
import org.springframework.data.annotation.Version;
import org.springframework.data.domain.Page;
import org.springframework.data.domain.Pageable;
import org.springframework.data.domain.Sort;
import org.springframework.data.repository.query.Param;

public final class Programs extends CosmosSuite {
    @Container(containerName = "books", partitionKeyPath = "/author", ru = "400")
    public static class Book {
        @Id
        public String id;
        public String author;
        public String title;
        public int pages;
        @Version
        public String _etag;

        public Book() { }

        Book(String id, String author, String title, int pages) {
            this.id = id;
            this.author = author;
            this.title = title;
            this.pages = pages;
        }
    }

    public interface Books extends CosmosRepository<Book, String> {
        List<Book> findByAuthorAndPagesGreaterThanOrderByPagesDesc(String author, int pages);

        Page<Book> findByPagesBetween(int low, int high, Pageable page);

        long countByAuthor(String author);

        @Query("SELECT VALUE COUNT(1) FROM c WHERE CONTAINS(c.title, @word)")
        long mentioning(@Param("word") String word);

        void deleteByAuthor(String author);
    }

    @EnableCosmosRepositories(basePackageClasses = Programs.class, considerNestedRepositories = true,
        includeFilters = @Filter(type = FilterType.ASSIGNABLE_TYPE, classes = Books.class))
    public static class Configuration extends AbstractCosmosConfiguration {
        @Value("#{database}")
        String database;

        @Override
        protected String getDatabaseName() {
            return database;
        }
    }

    static List<Integer> pages(Iterable<Book> books) {
        return Expect.all(books).stream().map(book -> book.pages).toList();
    }

    public void aRepositoryOfSpringDataCosmos() throws Exception {
        try (var context = new AnnotationConfigApplicationContext()) {
            context.registerBean("database", String.class, () -> newId("spring"));
            context.registerBean(CosmosClientBuilder.class, () -> builder());
            context.register(Configuration.class);
            context.refresh();
            use(context.getBean(Books.class));
            var template = context.getBean(CosmosTemplate.class);
            equal(3L, template.count("books"));
        }
    }

    void use(Books books) throws Exception {
        books.saveAll(IntStream.range(0, 10)
            .mapToObj(n -> new Book("" + n, n % 2 == 0 ? "ann" : "bob", "volume " + n, n * 100)).toList());
        Book first = books.findById("4", new PartitionKey("ann")).orElseThrow();
        equal("volume 4", first.title);
        that(first._etag != null, "a version");
        equal(List.of(900, 700), pages(books.findByAuthorAndPagesGreaterThanOrderByPagesDesc("bob", 500)));
        equal(5L, books.countByAuthor("ann"));
        equal(1L, books.mentioning("volume 7"));
        first.title = "changed";
        equal("changed", books.save(first).title);
        first._etag = "\"old\"";
        boolean isRefused = false;
        try {
            books.save(first);
        } catch (RuntimeException refusal) {
            isRefused = true;
        }
        that(isRefused, "a version that is not the current one is refused");
        Page<Book> page = books.findByPagesBetween(0, 500, new CosmosPageRequest(0, 4, null, Sort.by("pages")));
        equal(List.of(0, 100, 200, 300), pages(page));
        equal(6L, page.getTotalElements());
        equal(List.of(400, 500), pages(books.findByPagesBetween(0, 500, page.nextPageable())));
        equal(List.of(900, 800), pages(books.findAll(Sort.by(Sort.Direction.DESC, "pages"))).subList(0, 2));
        books.deleteByAuthor("bob");
        books.deleteById("0", new PartitionKey("ann"));
        books.delete(books.findById("2", new PartitionKey("ann")).orElseThrow());
        equal(3L, books.count());
    }
}
